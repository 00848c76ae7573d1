"""Which nodes a selector matches, without a look at each."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.cluster import selector
from fairlead_hub.cluster.node_index import NodeIndex

VALUES = st.sampled_from(["", "a", "b"])
LABELS = st.dictionaries(st.sampled_from(["site", "role"]), VALUES)
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
    LABELS, st.lists(EXPRESSION, max_size=2),
)  # fmt: skip
STEP = st.tuples(st.sampled_from(["n0", "n1", "n2"]), st.none() | LABELS, SELECTOR)


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
