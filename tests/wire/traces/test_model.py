"""Both models have the same keys and say the same of them, but for who begins a trace."""

from __future__ import annotations

import msgspec

from fairlead_wire.traces.model import TracesModel
from fairlead_wire.traces.settings import TracesSettings


def test_both_models_have_the_same_keys_in_the_same_order() -> None:
    assert [each.name for each in msgspec.structs.fields(TracesSettings)] == list(TracesModel.model_fields)
