"""LabelSelectors as Kubernetes reads them."""

import pytest

from fairlead_hub.cluster import selector

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
        ({"matchLabels": {"a b": "c"}}, "'a b' is no label"),
        ({"matchLabels": {"A.com/b": "c"}}, "is no label"),
        ({"matchLabels": {f"{'a' * 254}/b": "c"}}, "is no label"),
        ({"matchLabels": {"a": "-b"}}, "spec.matchLabels.a: '-b' is no label's value"),
        ({"matchLabels": {"a": "b" * 64}}, "at most 63"),
        ({"matchExpressions": [{"key": "", "operator": "Exists"}]}, r"\[0\].key: '' is no label"),
    ],
)
def test_nonsense_names_its_field(value, where):
    """A rule that cannot be read never selects by accident."""
    with pytest.raises(ValueError, match=where):
        selector.compile(value, "spec")
