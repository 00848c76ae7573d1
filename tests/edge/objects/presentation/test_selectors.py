"""Label and field selectors."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_edge.objects.presentation import selectors
from fairlead_edge.objects.presentation.selectors import BadSelector

POD: dict[str, Any] = {
    "metadata": {"name": "till", "namespace": "shop", "labels": {"app": "till", "env": "prod", "example.com/tier": ""}},
    "spec": {"nodeName": "edge-1", "hostNetwork": True},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app=till", True),
        ("app==till", True),
        ("app = till , env=prod", True),
        ("app=shop", False),
        ("app=", False),
        ("app!=shop", True),
        ("missing!=shop", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("! app", False),
        ("env in (prod, test)", True),
        ("env in (test)", False),
        ("env notin (test,dev)", True),
        ("missing notin (x)", True),
        ("missing in (x)", False),
        ("example.com/tier", True),
        ("example.com/tier=", True),
        ("example.com/tier in ()", True),
        ("env in (prod),app=till,!old", True),
        ("in=x", False),
        ("notin", False),
    ],
)
def test_label_selectors(text: str, expected: bool) -> None:
    assert selectors.labels(text)(POD) is expected


@pytest.mark.parametrize(
    "text",
    ["=", "app=till,", ",app", "app till", "env in prod", "a in (b", "a=b=c", "a>1", "x" * 5000, "(", "a in (b c)"],
)
def test_bad_label_selectors_are_refused(text: str) -> None:
    with pytest.raises(BadSelector):
        selectors.labels(text)


def test_an_object_without_labels_matches_only_what_asks_for_none() -> None:
    for metadata in ({}, {"labels": None}):
        assert selectors.labels("!app")({"metadata": metadata})
        assert not selectors.labels("app")({"metadata": metadata})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("metadata.name=till", True),
        ("metadata.name!=till", False),
        ("metadata.namespace=shop,status.phase=Running", True),
        ("spec.nodeName==edge-1", True),
        ("spec.hostNetwork=true", True),
        ("status.phase!=Failed", True),
        ("status.podIP=", True),
    ],
)
def test_field_selectors(text: str, expected: bool) -> None:
    assert selectors.fields(text, "", "pods")(POD) is expected


@pytest.mark.parametrize("text", ["spec.nope=1", "metadata.name", "=x", "data.key=1", "metadata.name>a", "x" * 5000])
def test_bad_field_selectors_are_refused(text: str) -> None:
    """An unknown field is an error, as it is in the cluster, not an empty answer."""
    with pytest.raises(BadSelector):
        selectors.fields(text, "", "pods")


def test_fields_are_known_by_type() -> None:
    """status.phase is a pod's field, not a ConfigMap's."""
    with pytest.raises(BadSelector, match=r"status.phase; supported: metadata.name, metadata.namespace"):
        selectors.fields("status.phase=x", "", "configmaps")
