"""The agent's table ``[traces]``: every mistake named, before anything starts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead_wire.io.settings import SettingsError, load
from fairlead_wire.traces.model import TracesModel
from fairlead_wire.traces.settings import TracesSettings

MODELS = [TracesSettings, TracesModel]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"ENDPOINT": "collector:4318"}, "endpoint"),
        ({"ENDPOINT": "grpc://collector:4317"}, "endpoint"),
        ({"ENDPOINT": "http://collector:port"}, "endpoint"),
        ({"RATIO": "1.5"}, "ratio"),
        ({"CEILING_PER_SECOND": "-1"}, "ceiling_per_second"),
        ({"TLS_CERT": "/a"}, "tls_key"),
        ({"TLS_KEY": "/a"}, "tls_cert"),
    ],
)
def test_a_mistake_names_its_key(model: type, given: dict[str, str], key: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load("edge", model, None, {f"FAIRLEAD_EDGE_{name}": value for name, value in given.items()})
    assert refused.value.key == key


@pytest.mark.parametrize("model", MODELS)
def test_without_settings_nothing_is_recorded(model: type) -> None:
    found: Any = load("edge", model, None, {})
    assert (found.endpoint, found.ratio) == (None, 0.0)


# ---- both models have the same keys and say the same of them, but for who begins a trace ----


def test_both_models_have_the_same_keys_in_the_same_order() -> None:
    assert [each.name for each in msgspec.structs.fields(TracesSettings)] == list(TracesModel.model_fields)
