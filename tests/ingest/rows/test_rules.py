"""What a rule has against a value."""

from __future__ import annotations

import decimal

from fairlead_ingest.rows.rules import NO_RULE, ColumnRule


def test_a_rule_names_what_it_refuses():
    rule = ColumnRule(minimum=0, maximum=10)
    assert [rule.refusal(value) for value in (0, 10, 10.5, -1)] == [
        "",
        "",
        "above the maximum 10",
        "below the minimum 0",
    ]
    assert ColumnRule(allowed=("a", "b")).refusal("c") == "not one of the allowed values"
    assert NO_RULE.refusal("anything") == ""


def test_a_tenth_is_a_tenth_beside_a_decimal():
    assert ColumnRule(minimum=0.1).refusal(decimal.Decimal("0.1")) == ""
    assert ColumnRule(maximum=0.1).refusal(decimal.Decimal("0.1")) == ""


def test_required_alone_asks_nothing_of_a_value():
    assert not ColumnRule(required=True).is_of_values
    assert ColumnRule(allowed=(1,)).is_of_values and ColumnRule(maximum=0).is_of_values
