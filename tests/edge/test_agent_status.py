"""What the agent says of itself: locally, to the hub, and as metrics."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead_edge import agent_metrics, agent_status, metrics
from fairlead_edge.agent_status import AgentStatus
from fairlead_edge.link_state import LinkState
from fairlead_edge.outbox.outbox import OutboxStatus, QueueCounts
from fairlead_edge.outbox.plan import status as plan_status
from fairlead_edge.outbox.plan.gate import HeldUntil, Why
from fairlead_edge.outbox.plan.status import LineStatus, PlanLimits
from fairlead_wire import message


def queue(priority: int, length: int) -> QueueCounts:
    return QueueCounts(
        endpoint="iothub",
        priority=priority,
        queue=f"iothub_Pri{priority}",
        length=length,
        bytes=100 * length,
        oldest_age_seconds=1.23456,
        accepted=9,
        sent=4,
        expired=2,
        evicted=1,
        dead_lettered=2,
        checkpoint=7,
    )


def agent(**changes: Any) -> AgentStatus:
    routes = message.RoutesStatus(uid="u", resource_version="5", accepted=["all"], errors=[])
    made = AgentStatus(
        node="edge-1",
        agent="1.0",
        store_epoch=77,
        now=100.0,
        link=LinkState(state="connected", hub="hub-a", fence=3, since=40.0, last_contact=98.5),
        held=12,
        commits=5,
        watches=1,
        counters={"sessions": 2},
        outbox=OutboxStatus(queues=(queue(0, 0), queue(1, 3)), bytes=300, max_bytes=1000, dead_letters=4),
        routes={"r": routes},
        publishing={"accepted": 18},
        pumping={"acked": 8},
    )
    return msgspec.structs.replace(made, **changes)


def test_the_status_says_how_the_link_is_and_what_waits() -> None:
    status = agent_status.status(agent())
    assert (status["storeEpoch"], status["objects"]) == (
        77,
        {"held": 12, "damaged": 0, "bytes": 0, "maxBytes": 0},
    )
    assert status["link"] == {
        "state": "connected",
        "hub": "hub-a",
        "fence": 3,
        "reason": "",
        "sinceSeconds": 60.0,
        "offlineSeconds": 0.0,
        "lastContactSeconds": 1.5,
        "followsInSeconds": None,
        "plan": plan_status.body(LineStatus()),
    }
    assert status["queues"][1] == {
        "endpoint": "iothub",
        "priority": 1,
        "queue": "iothub_Pri1",
        "length": 3,
        "bytes": 300,
        "oldestAgeSeconds": 1.23456,
        "accepted": 9,
        "sent": 4,
        "expired": 2,
        "evicted": 1,
        "deadLettered": 2,
        "damaged": 0,
        "inDoubt": 0,
        "lane": "",
        "stalled": None,
        "deferredTopics": [],
        "held": None,
    }
    assert status["routes"]["r"]["accepted"] == ["all"] and status["deadLetters"] == 4
    assert msgspec.json.encode(status)


def test_never_connected_is_said_as_such() -> None:
    status = agent_status.status(agent(link=LinkState(reason="refused")))
    assert status["link"]["lastContactSeconds"] is None and status["link"]["state"] == "connecting"
    assert "last_contact_seconds" not in metrics.render(agent_metrics.families(agent(link=LinkState())))


def test_the_hub_hears_only_of_queues_that_hold_something() -> None:
    """The same account is not sent again, so it carries nothing that changes by itself while all is quiet."""
    status = agent_status.for_hub(agent())
    assert [each.priority for each in status.queues] == [1]
    assert (status.held, status.dead_letters, status.store_bytes) == (12, 4, 300)
    assert agent_status.for_hub(agent(now=500.0, counters={"sessions": 9})) == status


def test_metrics_are_readable_and_carry_every_part() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    text = metrics.render(agent_metrics.families(agent()))
    found = {sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples}
    assert found["fairlead_edge_connected"].value == 1
    assert found["fairlead_edge_queue_length"].labels == {"endpoint": "iothub", "priority": "1"}
    assert found["fairlead_edge_queue_expired_total"].value == 2
    assert found["fairlead_edge_publish_events_total"].labels == {"event": "accepted"}


@pytest.mark.parametrize(
    ("link", "seconds"),
    [
        (LinkState(), 0.0),
        (LinkState(state="connecting", since=90.0), 10.0),
        (LinkState(state="connected", since=90.0, offline_seconds=7.5), 7.5),
        (LinkState(state="refused", since=90.0, offline_seconds=7.5), 17.5),
    ],
)
def test_offline_time_grows_while_there_is_no_session(link: LinkState, seconds: float) -> None:
    assert link.offline_at(100.0) == seconds
    assert agent_status.status(agent(link=link))["link"]["offlineSeconds"] == seconds
    assert "fairlead_edge_offline_seconds_total" in metrics.render(agent_metrics.families(agent(link=link)))


def test_a_stalled_queue_is_reported_everywhere() -> None:
    """Status, metric, and the hub: to the half minute, so that an account with nothing new is not sent."""
    stall = agent_status.Stall(for_seconds=95.5, code="busy", reason="no room", attempts=7, retry_in_seconds=1.5)
    stalled = agent(stalls={("iothub", 1): [stall]})
    assert agent_status.status(stalled)["queues"][1]["stalled"] == {
        "topic": "", "forSeconds": 95.5, "code": "busy", "reason": "no room", "attempts": 7, "retryInSeconds": 1.5,
    }  # fmt: skip
    [family] = [each for each in agent_metrics.families(stalled) if each.name == "fairlead_edge_queue_stalled_seconds"]
    assert family.samples == {("iothub", "0", ""): 0.0, ("iothub", "1", ""): 95.5}
    [queue] = agent_status.for_hub(stalled).queues
    assert (queue.stalled_seconds, queue.stalled_by) == (90.0, "busy: no room")
    short = msgspec.structs.replace(stall, for_seconds=29.0)
    [queue] = agent_status.for_hub(agent(stalls={("iothub", 1): [short]})).queues
    assert (queue.stalled_seconds, queue.stalled_by) == (0.0, "")


def test_a_deferred_topic_is_said_beside_its_queue() -> None:
    topic = agent_status.Stall(
        topic="shop/alarms", for_seconds=61.0, code="over_quota", reason="full", attempts=3, retry_in_seconds=None
    )
    deferring = agent(stalls={("iothub", 1): [topic]})
    queue = agent_status.status(deferring)["queues"][1]
    assert queue["stalled"] is None
    assert [(each["topic"], each["code"]) for each in queue["deferredTopics"]] == [("shop/alarms", "over_quota")]
    [family] = [
        each for each in agent_metrics.families(deferring) if each.name == "fairlead_edge_queue_stalled_seconds"
    ]
    assert family.samples[("iothub", "1", "shop/alarms")] == 61.0 and family.samples[("iothub", "1", "")] == 0.0
    [found] = agent_status.for_hub(deferring).queues
    assert (found.stalled_seconds, found.stalled_by) == (60.0, "topic shop/alarms: over_quota: full")


def test_a_used_up_budget_is_said_to_the_hub_where_all_hubs_show_it() -> None:
    held = {("iothub", 1): HeldUntil(Why.DAY, 130.0)}
    used_up = agent(queues_held=held, line=LineStatus(used=95, limits=PlanLimits(100), used_up=True))
    [queue] = agent_status.for_hub(used_up).queues
    assert queue.stalled_seconds == 30 and "bytes_per_day is used up" in queue.stalled_by
    assert agent_status.for_hub(used_up) == agent_status.for_hub(used_up)
    found = agent_status.status(used_up)
    assert found["queues"][1]["held"]["by"] == "day" and found["link"]["plan"]["usedUp"]
    text = metrics.render(agent_metrics.families(used_up))
    assert 'fairlead_edge_queue_held{endpoint="iothub",priority="1",by="day"} 1' in text
    at_night = agent(queues_held={("iothub", 1): HeldUntil(Why.WINDOW, 130.0)})
    assert agent_status.for_hub(at_night) == agent_status.for_hub(agent())


def test_metrics_say_how_full_the_store_is_and_what_modules_have() -> None:
    """By them the alerts about a store that is nearly full and a module that does not acknowledge are made."""
    text = metrics.render(agent_metrics.families(agent(given_out={("edge-1/filter/raw", 3): (2, 1)})))
    assert "fairlead_edge_outbox_bytes_max 1000\n" in text
    assert 'fairlead_edge_queue_leased{endpoint="edge-1/filter/raw",priority="3"} 2\n' in text
    assert 'fairlead_edge_queue_retrying{endpoint="edge-1/filter/raw",priority="3"} 1\n' in text


def test_metrics_say_when_the_certificate_ends() -> None:
    """Where there is one; without, no alert may take 1970 for its end."""
    name = "fairlead_edge_certificate_ends_timestamp_seconds"
    assert f"{name} 1900000000\n" in metrics.render(agent_metrics.families(agent(certificate_ends=1.9e9)))
    assert name not in metrics.render(agent_metrics.families(agent()))
