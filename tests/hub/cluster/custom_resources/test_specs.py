"""What people write, read by the models; and that both readings of a shared shape refuse the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead_hub.cluster import selector
from fairlead_hub.cluster.custom_resources import specs
from fairlead_hub.settings import NodeDelivery
from fairlead_wire.validation.model import MODELS

ODD = st.sampled_from(
    [None, True, -1, 0, 1, 0.5, 3.0, 9, 10, 40, 5000, 200_001, "", "x", "In", [], ["a"], {}, {"a": "b"}]
)
NUMBERS = st.sampled_from([0, 1, 2, 0.5, 1.0, 5, 30, 31.5, 60, 3600, 3601, 200_000])
CHOICES = st.sampled_from(["linear", "geometric", "exponential", "none", "full", "zaqar", "sns", True, False])
POLICIES = st.dictionaries(
    st.sampled_from([*NodeDelivery.__struct_fields__, "retires_max"]),
    st.one_of(NUMBERS, NUMBERS, CHOICES, ODD),
    max_size=5,
)
LABELS = st.sampled_from(["site", "example.com/site", "a b", "", "x" * 64, "-a", "a.b_c"])
SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.one_of(st.dictionaries(LABELS, st.one_of(LABELS, ODD), max_size=2), ODD),
        "matchExpressions": st.one_of(
            st.lists(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "key": st.one_of(LABELS, ODD),
                        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "in", None]),
                        "values": st.one_of(st.lists(LABELS, max_size=2), ODD),
                        "value": ODD,
                    },
                ),
                max_size=2,
            ),
            ODD,
        ),
        "site": ODD,
    },
)


def mistakes(data: Any, model: Any) -> list[str]:
    return [str(each) for each in MODELS.find(data, model)]


def reads(read: Any, *arguments: Any) -> bool:
    try:
        read(*arguments)
    except ValueError:
        return False
    return True


@given(POLICIES)
@example({"backoff_retries": 200_001, "retries_max": 1})
def test_a_delivery_policy_is_read_alike_in_a_rule_and_by_the_core(policy: dict[str, Any]) -> None:
    """What the model takes the core takes, with the same values; what only the model refuses are nulls it need not see
    and counts beyond the limits of the definition."""
    found = mistakes(policy, specs.DeliverySpec)
    if not found:
        known = {key: value for key, value in policy.items() if value is not None}
        assert specs.DeliverySpec.model_validate(policy).policy() == msgspec.convert(known, NodeDelivery)
    elif reads(msgspec.convert, policy, NodeDelivery):
        beyond = [value for value in policy.values() if isinstance(value, int | float) and not 0 <= value <= 200_000]
        assert beyond, (policy, found)


@given(SELECTORS)
def test_a_selector_is_read_alike_by_the_model_and_by_the_compiler(value: dict[str, Any]) -> None:
    """One judges what people wrote, the other is asked about labels."""
    assert bool(mistakes(value, specs.LabelSelector)) is not reads(selector.compile, value, ""), value


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"resources": []}, "resources: must be a list of 1 to 256 entries, is []"),
        (
            {"resources": [{"apiVersion": "v1", "kind": "ConfigMap", "select": "bound"}]},
            "resources[0].select: only Pods are bound to nodes; use referenced or all for ConfigMap",
        ),
        (
            {"resources": [{"apiVersion": "v1", "kind": "Pod"}], "nodeSelector": {"matchLabels": {"a": "-"}}},
            "nodeSelector.matchLabels.a: '-' is not a label value: letters, digits, -, _ and ., beginning and ending"
            " with a letter or digit",
        ),
    ],
)
def test_mistakes_are_reported_in_words(spec: dict[str, Any], said: str) -> None:
    """Patterns are for machines."""
    assert mistakes(spec, specs.SyncRuleSpec) == [said]
