"""Delivery policies on the command line."""

from __future__ import annotations

import click
import pytest

from fairlead_cli import parameters
from fairlead_wire.delivery_policy import DeliveryPolicy


def test_json_becomes_a_policy() -> None:
    """As everywhere else: what is absent has its default."""
    made = parameters.Policy().convert('{"minimum_delay": 1}', None, None)
    assert made == DeliveryPolicy(minimum_delay=1)
    assert parameters.Policy().convert(made, None, None) is made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"minimum_delay": 9, "maximum_delay": 1, "jitter": "ful"}', ("maximum_delay: ", "did you mean full")),
        ("{", ("Expecting",)),
        ("[]", ("policy: ",)),
        ("[" * 100_000, ("nested too deeply",)),
    ],
)
def test_everything_wrong_is_said(text: str, says: tuple[str, ...]) -> None:
    """In one sentence."""
    with pytest.raises(click.BadParameter) as refused:
        parameters.Policy().convert(text, None, None)
    assert all(part in refused.value.message for part in says)


def test_a_policy_in_a_few_words() -> None:
    """How often and between which delays."""
    none = DeliveryPolicy(
        retries_with_no_delay=0, minimum_delay_retries=0, maximum_delay_retries=0, backoff_retries=0
    )  # fmt: skip
    assert parameters.policy_shown(none) == "no retries"
    assert parameters.policy_shown(DeliveryPolicy()) == "14 retries, delays of 5 to 30 s"
