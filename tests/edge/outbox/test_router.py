"""The router: the best route of each endpoint, by the documented rule."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.edges.routes import message

from fairlead_edge.outbox import router
from fairlead_edge.outbox.manifest import parse
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.outbox.router import Router, RouteTarget


def routes(ttl: int = 7200, /, **named: Any) -> Router:
    """A router of these routes on node n."""
    parsed = parse({"schemaVersion": "1.1", "routes": named, "storeAndForwardConfiguration": {"timeToLiveSecs": ttl}})
    assert parsed.quarantined == ()
    return Router(parsed, "n")


def up(where: str = "", **more: Any) -> dict[str, Any]:
    return {"route": f"FROM /messages/* {where} INTO $upstream", **more}


def module(name: str, **more: Any) -> dict[str, Any]:
    return {"route": f"FROM /messages/* INTO BrokeredEndpoint('/modules/{name}/inputs/in')", **more}


def test_a_delivery_contains_everything_the_store_needs() -> None:
    sent = routes(a=up(priority=3, timeToLiveSecs=60, topic="plant/alarms")).route(message(), "/messages")
    assert sent == [
        RouteTarget(
            endpoint="iothub",
            queue=QueueId("iothub", 3),
            priority=3,
            ttl_seconds=60,
            topic="plant/alarms",
            routes=("a",),
        )
    ]
    assert str(sent[0].queue) == "iothub_Pri3"


def test_each_endpoint_gets_the_message_once() -> None:
    """However many routes lead there; endpoints are sorted, and those on the node have no topic."""
    sent = routes(a=up(), b=up(priority=1), c=module("m2"), d=module("m1", topic="x/y")).route(message(), "/messages")
    assert [(each.endpoint, each.priority, each.topic) for each in sent] == [
        ("iothub", 1, "default/telemetry"),
        ("n/m1/in", 2_000_000_000, ""),
        ("n/m2/in", 2_000_000_000, ""),
    ]


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        ({"priority": 1, "timeToLiveSecs": 10}, {"priority": 2, "timeToLiveSecs": 99}, "a"),
        ({"priority": 2, "timeToLiveSecs": 99}, {"priority": 0, "timeToLiveSecs": 10}, "b"),
        ({"priority": 9}, {}, "a"),
        ({"priority": 1, "timeToLiveSecs": 10}, {"priority": 1, "timeToLiveSecs": 11}, "b"),
        ({"priority": 1}, {"priority": 1, "timeToLiveSecs": 4_294_967_295}, "b"),
        ({"priority": 1}, {"priority": 1}, "a"),
    ],
)
def test_the_best_route_decides(first: dict[str, Any], second: dict[str, Any], winner: str) -> None:
    """The lowest priority number, then the longest time to live, then the first name; it gives time to live and
    topic."""
    (sent,) = routes(a=up(topic="t/a", **first), b=up(topic="t/b", **second)).route(message(), "/messages")
    assert (sent.routes[0], sent.topic) == (winner, f"t/{winner}")
    assert sorted(sent.routes) == ["a", "b"]


def test_never_expires_is_the_longest() -> None:
    (sent,) = routes(-1, a=up(priority=1, timeToLiveSecs=4_294_967_295), b=up(priority=1)).route(message(), "/messages")
    assert (sent.routes, sent.ttl_seconds) == (("b", "a"), None)


def test_only_true_matches() -> None:
    asked = routes(a=up("WHERE kind = 'x'"))
    assert [
        len(asked.route(message(properties), "/messages")) for properties in ({"kind": "x"}, {"kind": "y"}, {})
    ] == [
        1,
        0,
        0,
    ]


def test_sources_decide_first() -> None:
    asked = routes(a="FROM /messages/modules/m INTO $upstream")
    for _ in range(2):
        assert asked.route(message(), "/messages/modules/m/outputs/o")
        assert not asked.route(message(), "/messages/modules/n")


def test_remembered_sources_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "SOURCES_MAX", 3)
    asked = routes(a=up())
    for number in range(10):
        assert asked.route(message(), f"/messages/modules/m{number}")
    assert len(asked._by_source) <= 3


def test_topics_of_a_router() -> None:

    assert routes(a=up(), b=up(topic="x/y"), c=module("m", topic="z/z")).topics == {"default/telemetry", "x/y"}


def test_the_example_of_the_design() -> None:
    """Alerts first, kept for a day; data for half an hour; everything else for two hours."""
    text = {"P0_Alerts": "Alerts", "P1_Data": "Data"}
    named: dict[str, Any] = {"upstream": "FROM /messages/* INTO $upstream"}
    for module_name, output, priority, ttl in (
        ("SecCamMod", "P0_Alerts", 0, 86_400),
        ("FloorCamMod", "P0_Alerts", 0, 86_400),
        ("SecCamMod", "P1_Data", 1, 1800),
    ):
        named[f"{module_name}{text[output]}"] = {
            "route": f"FROM /messages/modules/{module_name}/outputs/{output} INTO $upstream",
            "priority": priority,
            "timeToLiveSecs": ttl,
        }
    made = routes(7200, **named)

    def sent(module_name: str, output: str) -> tuple[str, float | None]:
        [delivery] = made.route(message(), f"/messages/modules/{module_name}/outputs/{output}")
        return str(delivery.queue), delivery.ttl_seconds

    assert sent("SecCamMod", "P0_Alerts") == sent("FloorCamMod", "P0_Alerts") == ("iothub_Pri0", 86_400)
    assert sent("SecCamMod", "P1_Data") == ("iothub_Pri1", 1800)
    assert sent("FloorCamMod", "P1_Data") == ("iothub", 7200)


def bad_router(**named: Any) -> Router:
    stored = {"timeToLiveSecs": 7200}
    return Router(parse({"schemaVersion": "1.1", "routes": named, "storeAndForwardConfiguration": stored}), "n")


def test_what_only_a_refused_route_might_take_is_held_for_the_most_urgent_of_them() -> None:
    bad = "FROM /messages/modules/m/* WHERE as_nmber(t) > 1 INTO $upstream"
    found = bad_router(
        a={"route": bad, "priority": 3},
        b={"route": bad, "priority": 1, "timeToLiveSecs": 60},
        good="FROM /messages/modules/other/* INTO $upstream",
    ).hold(message(), "/messages/modules/m/outputs/o")
    assert found is not None
    assert (found.route, found.queue, found.ttl_seconds) == ("b", QueueId("n/$routes/held", 1), 60)
    assert "as_nmber" in found.reason
    assert bad_router(a=bad).hold(message(), "/messages/modules/m2") is None


def test_a_refused_route_whose_condition_can_be_read_holds_what_it_would_take() -> None:
    router = bad_router(a={"route": "FROM /messages/* WHERE colour = 'red' INTO $upstream", "priority": 77})
    held = router.hold(message(properties={"colour": "red"}), "/messages")
    assert held is not None and held.queue.priority == 2_000_000_000
    assert router.hold(message(properties={"colour": "blue"}), "/messages") is None


def test_a_refused_route_without_a_source_holds_any_message() -> None:
    assert bad_router(a="FORM /messages/* INTO $upstream").hold(message(), "/messages/modules/m") is not None
