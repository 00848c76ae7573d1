"""What a rule has against a value."""

from __future__ import annotations

import decimal

from fairlead_ingest.rows.rules import NO_RULE, Rule


def test_a_rule_names_what_it_refuses() -> None:
    """Bounds belong to what is allowed."""
    rule = Rule(minimum=0, maximum=10)
    assert [rule.refusal(value) for value in (0, 10, 10.5, -1)] == [
        "",
        "",
        "above the maximum 10",
        "below the minimum 0",
    ]
    assert Rule(allowed=("a", "b")).refusal("c") == "none of the allowed values"
    assert NO_RULE.refusal("anything") == ""


def test_a_tenth_is_a_tenth_beside_a_decimal() -> None:
    """As its author wrote it."""
    assert Rule(minimum=0.1).refusal(decimal.Decimal("0.1")) == ""
    assert Rule(maximum=0.1).refusal(decimal.Decimal("0.1")) == ""


def test_required_alone_asks_nothing_of_a_value() -> None:
    """Only that there is one."""
    assert not Rule(required=True).is_of_values
    assert Rule(allowed=(1,)).is_of_values and Rule(maximum=0).is_of_values
