"""LabelSelectors as Kubernetes reads them."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.cluster import selector
from fairlead_hub.cluster.selector import NodeIndex

LABELS = {"role": "shop", "tier": "1"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, True),
        ({}, True),
        ({"matchLabels": {"role": "shop"}}, True),
        ({"matchLabels": {"role": "ship"}}, False),
        ({"matchLabels": {"role": "shop", "tier": "2"}}, False),
        ({"matchExpressions": [{"key": "role", "operator": "In", "values": ["shop", "ship"]}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["shop"]}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "role", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "role", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_what_matches(value, expected):
    """An absent key satisfies NotIn, an empty selector selects everything."""
    assert selector.compile(value, "spec").matches(LABELS) is expected


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ([], "spec: "),
        ({"matchLables": {}}, "unknown field matchLables"),
        ({"matchLabels": {"a": 1}}, "spec.matchLabels.a"),
        ({"matchExpressions": ["x"]}, r"spec.matchExpressions\[0\]"),
        ({"matchExpressions": [{"key": "a", "operator": "Like"}]}, "operator"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "values: needed"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "values: not allowed"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}, r"values\[0\]: must be text"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]}, "list of text"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"], "value": "c"}]}, "unknown field value"),
        ({"matchExpressions": {"key": "a"}}, "spec.matchExpressions: must be a list"),
        ({"matchLabels": ["a"]}, "spec.matchLabels: must map"),
        ({"matchLabels": {"a b": "c"}}, "'a b' is not a label"),
        ({"matchLabels": {"A.com/b": "c"}}, "is not a label"),
        ({"matchLabels": {f"{'a' * 254}/b": "c"}}, "is not a label"),
        ({"matchLabels": {"a": "-b"}}, "spec.matchLabels.a: '-b' is not a label value"),
        ({"matchLabels": {"a": "b" * 64}}, "at most 63"),
        ({"matchExpressions": [{"key": "", "operator": "Exists"}]}, r"\[0\].key: '' is not a label"),
    ],
)
def test_nonsense_names_its_field(value, where):
    """A rule that cannot be read never selects by accident."""
    with pytest.raises(ValueError, match=where):
        selector.compile(value, "spec")


VALUES = st.sampled_from(["", "a", "b"])
NODE_LABELS = st.dictionaries(st.sampled_from(["site", "role"]), VALUES)
EXPRESSION = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["site", "role"]), st.sampled_from(["In", "NotIn"]), st.lists(VALUES, min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["site", "role"]), st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)  # fmt: skip
SELECTOR = st.builds(
    lambda labels, expressions: selector.compile({"matchLabels": labels, "matchExpressions": expressions}, "spec"),
    NODE_LABELS, st.lists(EXPRESSION, max_size=2),
)  # fmt: skip
STEP = st.tuples(st.sampled_from(["n0", "n1", "n2"]), st.none() | NODE_LABELS, SELECTOR)


@pytest.mark.slow
@given(st.lists(STEP, max_size=12))
def test_it_finds_what_a_look_at_each_node_finds(steps: list[Any]) -> None:
    """Whatever was indexed before a node came, was relabelled or went."""
    index, nodes = NodeIndex(), dict[str, dict[str, str]]()
    for name, labels, asked in steps:
        if labels is None:
            assert index.drop(name) is (nodes.pop(name, None) is not None)
        else:
            index.put(name, labels)
            nodes[name] = labels
        assert index.matching(asked) == {each for each, has in nodes.items() if asked.matches(has)}
    assert index.labels == nodes


def test_a_rule_for_one_node_looks_at_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand rules for ten thousand nodes would otherwise be a hundred million looks at every start."""
    index, looked = NodeIndex(), list[str]()
    for number in range(1000):
        index.put(f"n{number}", {"kubernetes.io/hostname": f"n{number}", "role": "shop"})
    matches = selector.Selector.matches

    def counted(self: selector.Selector, labels: Mapping[str, str]) -> bool:
        looked.append(labels["kubernetes.io/hostname"])
        return matches(self, labels)

    monkeypatch.setattr(selector.Selector, "matches", counted)
    one = selector.compile({"matchLabels": {"kubernetes.io/hostname": "n7"}}, "spec")
    assert index.matching(one) == {"n7"} and looked == ["n7"]
    assert len(index.matching(selector.EVERYTHING)) == 1000 and len(looked) == 1
