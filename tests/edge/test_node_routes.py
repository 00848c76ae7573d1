"""The routes of a node: all EdgeRoutes it holds, replaced whole at every change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.edges.held import config_map, held

from fairlead_edge.node_routes import NodeRoutes, is_usable
from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.watch_history import VersionedChange
from fairlead_edge.routes.message import RoutedMessage


def edge_routes(name: str, routes: dict[str, Any], **spec: Any) -> HeldObject:
    document = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "EdgeRoutes",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {
            "schemaVersion": "1.1",
            "routes": routes,
            "storeAndForwardConfiguration": {"timeToLiveSecs": 60},
            **spec,
        },
    }
    return held(document, "edgeroutes")


def taken(routes: NodeRoutes) -> list[str]:
    """Which routes take a message."""
    assert routes.router is not None
    message = RoutedMessage(properties={}, system_properties={}, body=b"")
    return [name for delivery in routes.router.route(message, "/messages/m") for name in delivery.routes]


UP = "FROM /messages/* INTO $upstream"


def test_a_node_that_had_routes_once_has_a_router_without_any() -> None:
    routes = NodeRoutes("edge-1", [], ever=True)
    assert taken(routes) == []


def test_the_first_routes_bring_a_router() -> None:
    routes = NodeRoutes("edge-1", [], ever=False)
    assert routes.router is None
    assert routes.follow(VersionedChange(version=1, previous=None, current=edge_routes("a", {"all": UP})))
    assert taken(routes) == ["all"]
    status = routes.statuses["a"]
    assert (status.uid, status.resource_version) == ("uid-a", "100")
    assert (status.accepted, status.topics) == (["all"], ["default/telemetry"])


def test_other_objects_are_none_of_its_business() -> None:
    routes = NodeRoutes("edge-1", [edge_routes("a", {"all": UP})], ever=True)
    before = routes.router
    assert not routes.follow(VersionedChange(version=1, previous=None, current=held(config_map("a"))))
    assert routes.router is before


def test_several_objects_are_one_and_the_first_owns_a_name() -> None:
    """Of one form and one age the first by name, and both say so."""
    topic = {"route": UP, "topic": "shop/orders", "priority": 2}
    routes = NodeRoutes(
        "edge-1", [edge_routes("b", {"all": topic, "more": topic}), edge_routes("a", {"all": {"route": UP}})], ever=True
    )
    assert [each.route for each in routes.statuses["a"].warnings] == ["all"]
    assert (routes.statuses["a"].accepted, routes.statuses["b"].accepted) == (["all"], ["more"])
    [error] = routes.statuses["b"].errors
    assert error.route == "all" and "EdgeRoutes a" in error.message
    assert routes.statuses["b"].topics == ["shop/orders"]


def test_one_bad_route_is_named_with_its_place_and_the_others_run() -> None:
    routes = NodeRoutes("edge-1", [edge_routes("a", {"good": UP, "bad": "FROM nowhere"})], ever=True)
    status = routes.statuses["a"]
    assert status.accepted == ["good"] and taken(routes) == ["good"]
    [error] = status.errors
    assert (error.route, error.line, error.column) == ("bad", 1, 6)


def test_a_broken_route_takes_no_good_one_down_and_leaves_no_trace_when_it_goes() -> None:
    good = edge_routes("shops", {"alarms": UP, "telemetry": UP})
    bad = edge_routes("aaa", {"alarms": "FRM /messages/* INTO $upstream", "telemetry": {"route": UP, "priority": 12}})
    routes = NodeRoutes("edge-1", [good], ever=True)
    before = routes.statuses["shops"]
    routes.follow(VersionedChange(version=1, previous=None, current=bad))
    assert taken(routes) == ["alarms", "telemetry"]
    assert routes.statuses["shops"].accepted == ["alarms", "telemetry"] and not routes.statuses["shops"].errors
    assert {each.route for each in routes.statuses["shops"].warnings} == {"alarms", "telemetry"}
    assert [each.route for each in routes.statuses["aaa"].errors] == ["alarms", "telemetry"]
    routes.follow(VersionedChange(version=2, previous=bad, current=None))
    assert routes.statuses == {"shops": before}


def test_the_status_says_which_content_was_judged() -> None:
    first = edge_routes("a", {"all": {"route": UP, "timeToLive": 60}})
    status = NodeRoutes("edge-1", [first], ever=True).statuses["a"]
    assert status.digest == first.digest
    assert [each.message.partition(":")[0] for each in status.warnings] == ["spec.routes.all.timeToLive"]


def test_an_object_that_is_not_a_manifest_is_reported_and_the_others_run() -> None:
    routes = NodeRoutes(
        "edge-1", [edge_routes("a", {"x": UP}, schemaVersion="7.0"), edge_routes("b", {"all": UP})], ever=True
    )
    [error] = routes.statuses["a"].errors
    assert error.message.startswith("spec.schemaVersion: ") and routes.statuses["a"].accepted == []
    assert taken(routes) == ["all"]


def test_an_invalid_new_version_leaves_the_last_valid_one_in_force() -> None:
    """A typing error in a change must not send a node's messages nowhere; a new object starts anew."""
    good, bad = edge_routes("a", {"all": UP}), edge_routes("a", {"all": UP}, schemaVersion="9.0")
    routes = NodeRoutes("edge-1", [good], ever=False)
    routes.follow(VersionedChange(version=2, previous=good, current=bad))
    assert taken(routes) == ["all"]
    assert routes.statuses["a"].errors
    routes.follow(VersionedChange(version=3, previous=bad, current=None))
    routes.follow(VersionedChange(version=4, previous=None, current=bad))
    assert routes.router is None and "schemaVersion" in routes.unusable


def test_the_fallback_the_store_kept_is_in_force_after_a_restart() -> None:
    """Also its name is still owned; the status says what is wrong with the version that is held."""
    good, bad = edge_routes("a", {"all": UP}), edge_routes("a", {"all": UP}, schemaVersion="9.0")
    routes = NodeRoutes("edge-1", [bad], ever=True, fallbacks=[good])
    assert taken(routes) == ["all"]
    assert routes.statuses["a"].accepted == ["all"] and routes.statuses["a"].errors


def test_a_fallback_of_another_object_or_of_no_use_is_left_alone() -> None:
    """The name was given to a new object; or this program reads manifests more strictly than the one before."""
    bad = edge_routes("a", {"all": UP}, schemaVersion="9.0")
    other = msgspec.structs.replace(edge_routes("a", {"all": UP}), uid="other")
    for fallback in (other, bad):
        routes = NodeRoutes("edge-1", [bad], ever=True, fallbacks=[fallback])
        assert routes.router is None and "schemaVersion" in routes.unusable


@pytest.mark.parametrize("spec", [{"schemaVersion": "9.0"}, {"routes": {"all": "FROM nowhere"}}])
def test_first_routes_of_which_none_can_be_used_are_said_and_not_used(spec: dict[str, Any]) -> None:
    """A message would be accepted and go nowhere; the first usable ones end it, and no routes at all are obeyed."""
    bad, good = edge_routes("a", **{"routes": {"all": UP}, **spec}), edge_routes("a", {"all": UP})
    routes = NodeRoutes("edge-1", [bad], ever=True)
    assert routes.router is None and "EdgeRoutes a: " in routes.unusable
    assert routes.statuses["a"].errors
    routes.follow(VersionedChange(version=2, previous=bad, current=good))
    assert (taken(routes), routes.unusable) == (["all"], "")
    routes.follow(VersionedChange(version=3, previous=good, current=edge_routes("a", {})))
    assert (taken(routes), routes.unusable) == ([], "")


def test_only_routes_need_a_fallback() -> None:
    good, bad = edge_routes("a", {"all": UP}), edge_routes("a", {"all": UP}, schemaVersion="9.0")
    other = held(config_map("a"))
    assert [is_usable(each.resource, each.content) for each in (good, bad, other)] == [True, False, True]


def test_an_object_that_is_no_manifest_holds_what_no_other_takes_until_it_is_one() -> None:
    broken = edge_routes("b", {}, schemaVersion="9.9")
    good = edge_routes("a", {"m": "FROM /messages/m INTO $upstream"})
    routes = NodeRoutes("edge-1", [good, broken], ever=True)
    message = RoutedMessage(properties={}, system_properties={}, body=b"")
    assert routes.router is not None
    held = routes.router.hold(message, "/messages/other")
    assert held is not None and (held.route, held.origin) == ("", "b") and "schemaVersion" in held.reason
    assert routes.follow(
        VersionedChange(version=2, previous=broken, current=edge_routes("b", {"n": "FROM /n INTO $upstream"}))
    )
    assert routes.router.hold(message, "/messages/other") is None
    assert routes.follow(VersionedChange(version=3, previous=None, current=broken))
    assert routes.router.hold(message, "/messages/other") is None, "the last good version is in force"
