"""The two readings of a delivery policy: people in the cluster write a model, device and wire read a struct.

Generated: a key, a default or a limit that one of them gets and the other does not fails here.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.settings import DeliverySettings, NodeDelivery
from fairlead_wire.delivery_model import DeliveryModel
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.validation.model import MODELS
from fairlead_wire.validation.reader import STRUCTS

PAIRS = pytest.mark.parametrize(
    ("model", "struct"), [(DeliveryModel, DeliveryPolicy), (DeliverySettings, NodeDelivery)]
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 400),
    st.integers(10**8, 10**12),
    st.floats(),
    st.sampled_from(["linear", "exponential", "full", "none", "zaqar", "sns", "5", ""]),
    st.lists(st.none(), max_size=1),
)
KEYS = [*NodeDelivery.__struct_fields__, "typo"]


@PAIRS
def test_keys_and_defaults_are_the_same(model: Any, struct: Any) -> None:
    assert [each.name for each in MODELS.fields(model)] == [each.name for each in STRUCTS.fields(struct)]
    assert model().policy() == struct() and type(model().policy()) is struct


@pytest.mark.slow
@PAIRS
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5))
def test_one_takes_what_the_other_takes(model: Any, struct: Any, document: dict[str, Any]) -> None:
    """And makes the same policy of it; what one refuses the other refuses, and the model may find more at once."""
    refused = {each.key for each in STRUCTS.find(document, struct)}
    found = {each.key for each in MODELS.find(document, model)}
    assert refused <= found and bool(refused) == bool(found)
    if not refused:
        assert model.model_validate(document).policy() == msgspec.convert(document, struct)


def test_everything_is_said_at_once() -> None:
    """With the keys that must fit together, however a misspelt choice was meant."""
    document = {"minimum_delay": 9, "maximum_delay": 3, "retries_mx": 1, "jitter": "ful"}
    assert sorted(map(str, MODELS.find(document, DeliveryModel))) == [
        "jitter: must be one of none, full, equal, decorrelated, is 'ful'; did you mean full?",
        "maximum_delay: must not be below minimum_delay, is 3 < 9",
        "retries_mx: unknown key; did you mean retries_max?",
    ]
