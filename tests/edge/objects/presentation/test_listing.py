"""Objects as clients see them: presented, selected, paged, watched."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.edges.held import config_map, held

from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.presentation import listing
from fairlead_edge.objects.presentation.api_requests import ApiError
from fairlead_edge.objects.presentation.listing import ListPage, ListScope
from fairlead_edge.objects.watch_history import HistoryExpired, VersionedChange, WatchHistory


def scope(*, namespace: str | None = None, plural: str = "configmaps", name: str = "", **query: str) -> ListScope:
    selection = listing.read_selection(query, "", plural, name=name)
    return ListScope(group="", version="v1", plural=plural, namespace=namespace, selection=selection)


def one(name: str, version: int = 1, **more: Any) -> HeldObject:
    return held(config_map(name, **more), local_version=version)


def names(found: ListPage) -> list[str]:
    return [each.resource.name for each in found.items]


def log_of(*changes: VersionedChange[HeldObject]) -> WatchHistory[HeldObject]:
    log: WatchHistory[HeldObject] = WatchHistory(10)
    for change in changes:
        log.append(change)
    return log


def test_the_version_is_the_edges_own_and_the_clusters_an_annotation() -> None:
    """A client can watch from what it was given, and still see what the cluster called it."""
    shown = listing.present(one("a", 12, annotations={"mine": "x"}), age_seconds=3.6)
    assert shown["metadata"]["resourceVersion"] == "12"
    assert shown["metadata"]["annotations"] == {
        "mine": "x",
        "fairlead.dev/resource-version": "100",
        "fairlead.dev/age-seconds": "4",
    }
    assert shown["data"] == {"k": "v"}


@pytest.mark.parametrize("annotations", [None, {}])
def test_absent_annotations_are_made(annotations: dict[str, str] | None) -> None:
    document = config_map("a")
    document["metadata"]["annotations"] = annotations
    assert len(listing.present(held(document), age_seconds=-1)["metadata"]["annotations"]) == 2


def test_selectors_choose() -> None:
    objects = [one("a", labels={"app": "x"}), one("b", labels={"app": "x"}), one("c")]
    chosen = listing.page(objects, 10, log_of(), scope(labelSelector="app=x", fieldSelector="metadata.name!=a"))
    assert names(chosen) == ["b"]
    assert names(listing.page(objects, 10, log_of(), scope(name="c"))) == ["c"]


@pytest.mark.parametrize(
    "query",
    [
        {"labelSelector": "a in"},
        {"fieldSelector": "data.x=1"},
        {"limit": "-1"},
        {"limit": "many"},
        {"limit": "9" * 40},
        {"continue": "!!!"},
        {"continue": "x" * 4000},
        {"continue": "e30="},
        {"resourceVersion": "1a", "resourceVersionMatch": "Exact"},
    ],
)
def test_bad_queries_are_refused_with_400(query: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refused:
        listing.read_selection(query, "", "configmaps")
    assert refused.value.code == 400 and str(refused.value)


def test_later_pages_show_the_version_of_the_first() -> None:
    """Changes between two pages are undone, so that the pages are one list: nothing twice, nothing missing."""
    a, b, c, d = (one(name) for name in "abcd")
    first = listing.page([a, b, c, d], 10, log_of(), scope(limit="2"))
    later_c = one("c", 12, labels={"new": "yes"})
    log = log_of(
        VersionedChange(version=11, previous=None, current=one("bb", 11)),
        VersionedChange(version=12, previous=c, current=later_c),
        VersionedChange(version=13, previous=d, current=None),
        VersionedChange(version=14, previous=None, current=held(config_map("zz"), "secrets")),
    )
    now = [a, b, one("bb", 11), later_c]
    second = listing.page(now, 14, log, scope(**{"limit": "2", "continue": first.continue_token}))
    assert (names(second), second.version, second.items[0]) == (["c", "d"], 10, c)


def test_a_token_too_old_is_expired() -> None:
    """The history between the pages is gone, so the list starts again."""
    first = listing.page([one("a"), one("b")], 5, log_of(), scope(limit="1"))
    with pytest.raises(HistoryExpired):
        listing.page([one("a"), one("b")], 10, log_of(), scope(**{"continue": first.continue_token}))


def test_an_exact_version_from_the_future_is_expired() -> None:
    """A store that was restored from a copy does not invent what it never had."""
    with pytest.raises(HistoryExpired):
        listing.page([], 10, log_of(), scope(resourceVersion="99", resourceVersionMatch="Exact"))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, {"app": "x"}, ["ADDED"]),
        ({"app": "x"}, {"app": "x"}, ["MODIFIED"]),
        ({"app": "x"}, None, ["DELETED"]),
        ({"app": "y"}, {"app": "x"}, ["ADDED"]),
        ({"app": "x"}, {"app": "y"}, ["DELETED"]),
        ({"app": "y"}, {"app": "y"}, []),
        (None, {"app": "y"}, []),
    ],
)
def test_a_watch_sends_what_happened_to_its_selection(
    before: dict[str, str] | None, after: dict[str, str] | None, expected: list[str]
) -> None:
    change = VersionedChange(
        version=11,
        previous=one("a", labels=before) if before else None,
        current=one("a", labels=after) if after else None,
    )
    assert [kind for kind, _ in listing.events(change, scope(labelSelector="app=x"))] == expected


def test_a_new_object_under_the_old_name_is_two_events() -> None:
    """A watcher must not take the new for a newer state of the old."""
    old, new = one("a", uid="old"), one("a", uid="new")
    events = listing.events(VersionedChange(version=11, previous=old, current=new), scope())
    assert [(kind, each.uid) for kind, each in events] == [("DELETED", "old"), ("ADDED", "new")]


@pytest.mark.parametrize("other", [scope(namespace="elsewhere"), scope(plural="secrets")])
def test_other_namespaces_and_types_are_not_sent(other: ListScope) -> None:
    assert listing.events(VersionedChange(version=11, previous=None, current=one("a")), other) == []


def till(api: str, name: str, version: int) -> HeldObject:
    document = {"apiVersion": f"shop.io/{api}", "kind": "Till", "metadata": {"name": name, "namespace": "shop"}}
    return held(document, "tills", local_version=version)


def tills(api: str) -> ListScope:
    return ListScope(group="shop.io", version=api, plural="tills", namespace=None, selection=listing.ListSelection())


def test_a_list_is_rewound_over_a_change_of_version() -> None:
    """A client that goes on with a page, or asks for an exact version, sees what was held then, at that version."""
    old, other = till("v1", "a", 11), till("v1", "b", 12)
    new = till("v2", "a", 13)
    log = log_of(
        VersionedChange(version=11, previous=None, current=old),
        VersionedChange(version=12, previous=None, current=other),
        VersionedChange(version=13, previous=old, current=new),
    )
    at = listing.ListSelection(at_version=12)

    def then(api: str, now: list[HeldObject]) -> list[str]:
        return names(listing.page(now, 13, log, msgspec.structs.replace(tills(api), selection=at)))

    assert then("v1", [other]) == ["a", "b"]
    assert then("v2", [new]) == []
