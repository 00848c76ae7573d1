"""The agent's status, for ``GET /v1/status`` and for the hub; ``agent_metrics`` turns it into metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_edge.identity import certificate as identity_status
from fairlead_edge.identity.certificate import CertificateStatus
from fairlead_edge.link_state import LinkState
from fairlead_edge.mqtt import status as mqtt_status
from fairlead_edge.mqtt.status import MqttStatus
from fairlead_edge.outbox.outbox import OutboxStatus, QueueCounts
from fairlead_edge.outbox.plan import status as plan_status
from fairlead_edge.outbox.plan.gate import HeldUntil, Why
from fairlead_edge.outbox.plan.status import LineStatus
from fairlead_edge.outbox.queues import base, is_held_for_routes, is_live_lane
from fairlead_edge.outbox.receipts.latency import Quantiles
from fairlead_wire import delivery_policy, message
from fairlead_wire.delivery_policy import DeliveryPolicy

STALLED_SECONDS: Final = 30.0
"""A queue from which nothing was taken for this long is stalled."""


REFUSED_ROUTES_SHOWN: Final = 3
"""At most so many refused routes are named as the reason for held messages; the status of the routes lists all."""


class Stall(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue, or one ``topic`` of it that the hub deferred, from which nothing is taken: for how long, the hub's last
    answer, the attempts so far, and when the next one follows."""

    topic: str = ""
    for_seconds: float
    code: str
    reason: str
    attempts: int
    retry_in_seconds: float | None


class Encryption(msgspec.Struct, frozen=True):
    """Which stores are encrypted on disk, and the fingerprint of the key."""

    extent: str = "none"
    key: str = ""
    objects: bool = False
    messages: bool = False


class AgentStatus(msgspec.Struct, kw_only=True):
    """A snapshot of the agent.  ``now`` is the store's clock; ``counters`` are the link's events since the start."""

    node: str
    agent: str
    store_epoch: int
    now: float
    link: LinkState
    held: int
    object_bytes: int = 0
    """Size of the object store's file."""
    object_bytes_max: int = 0
    commits: int
    watches: int
    unsent_bytes: int = 0
    """Bytes of responses that local clients have not read yet."""
    readers_closed: Mapping[str, int] = {}
    """Connections closed because the client did not read, by reason."""
    counters: Mapping[str, int]
    outbox: OutboxStatus
    routes: Mapping[str, message.RoutesStatus]
    publishing: Mapping[str, int]
    """Messages of producers: received, accepted, repeated, without a route, refused by code."""
    delivery: Mapping[str, DeliveryPolicy] = {}
    """Retry policies: to the hub (``upstream``) and to modules (``brokered``)."""
    disk_full: bool = False
    """The disk, not the store's own limit, refused a write, and there is still no room on it."""
    salvaged: str = ""
    """Why a store had to be salvaged when it was opened; empty: it was sound."""
    damaged: int = 0
    """Objects found damaged on disk since the start; the hub sends them again."""
    pumping: Mapping[str, int]
    """Sent to the hub: batches, messages, bytes, acked, refused, nacks by code."""
    stalls: Mapping[tuple[str, int], Sequence[Stall]] = {}
    """By endpoint and priority: stalls of the queue and of its deferred topics."""
    certificate_ends: float | None = None
    """A Unix time; 0: the certificate cannot be read, None: there is none."""
    encryption: Encryption = Encryption()
    identity: CertificateStatus | None = None
    """None: security is off."""
    mqtt: MqttStatus | None = None
    """None: MQTT is off."""
    receipts: Mapping[str, int] = {}
    """Receipts answered, unknown, refused; questions to the hub."""
    to_table: Sequence[Quantiles] = ()
    """How long messages take from the node to a table, by priority."""
    statuses: Mapping[str, int] = {}
    """Statuses that programs reported of objects, by state."""
    reporting: Mapping[str, int] = {}
    """Outcomes of reported status: reported, sent, written, refused, put off, lost with the link."""
    given_out: Mapping[tuple[str, int], tuple[int, int]] = {}
    """By brokered endpoint and priority: leased messages, and messages waiting for their next attempt."""
    line: LineStatus = LineStatus()
    """Bytes that the link carried, and its daily limit."""
    queues_held: Mapping[tuple[str, int], HeldUntil] = {}
    """By endpoint and priority: why messages may not leave now."""


def status(agent: AgentStatus) -> dict[str, Any]:
    """The body of ``GET /v1/status``; ages in seconds."""
    link = agent.link
    return {
        "node": agent.node,
        "agent": agent.agent,
        "storeEpoch": agent.store_epoch,
        "link": {
            "state": link.state,
            "hub": link.hub,
            "fence": link.fence,
            "reason": link.reason,
            "sinceSeconds": seconds_since(agent.now, link.since),
            "offlineSeconds": link.offline_at(agent.now),
            "lastContactSeconds": seconds_since(agent.now, link.last_contact),
            "followsInSeconds": None if link.follows_at is None else max(0.0, round(link.follows_at - agent.now, 3)),
            "plan": plan_status.body(agent.line),
        },
        "identity": None if agent.identity is None else identity_status.body(agent.identity),
        **({} if agent.mqtt is None else {"mqtt": mqtt_status.body(agent.mqtt)}),
        "objects": {
            "held": agent.held,
            "damaged": agent.damaged,
            "bytes": agent.object_bytes,
            "maxBytes": agent.object_bytes_max,
        },
        "queues": [
            {
                "endpoint": queue.endpoint,
                "priority": base(queue.priority),
                "lane": "live" if is_live_lane(queue.priority) else "",
                "queue": queue.queue,
                "length": queue.length,
                "bytes": queue.bytes,
                "oldestAgeSeconds": queue.oldest_age_seconds,
                "accepted": queue.accepted,
                "sent": queue.sent,
                "expired": queue.expired,
                "evicted": queue.evicted,
                "deadLettered": queue.dead_lettered,
                "damaged": queue.damaged,
                "inDoubt": queue.in_doubt,
                "stalled": msgspec.to_builtins(_stall_of(agent, queue)),
                "deferredTopics": [msgspec.to_builtins(stall) for stall in stalls_of(agent, queue) if stall.topic],
                "held": plan_status.held(
                    agent.queues_held.get((queue.endpoint, queue.priority)),
                    agent.now,
                    agent.line.opens.get(base(queue.priority)),
                ),
                **_given_out(agent.given_out.get((queue.endpoint, queue.priority))),
            }
            for queue in agent.outbox.queues
        ],
        "deadLetters": agent.outbox.dead_letters,
        "refusedInput": {
            "deadLetters": agent.outbox.refused_letters,
            "bytes": agent.outbox.refused_bytes,
            "maxBytes": agent.outbox.refused_bytes_max,
        },
        "delivery": {
            name: {**msgspec.to_builtins(policy), "summary": delivery_policy.policy_summary(policy)}
            for name, policy in agent.delivery.items()
        },
        "toTable": [
            {"priority": each.priority, "measured": each.measured, "p50Seconds": each.p50, "p95Seconds": each.p95}
            for each in agent.to_table
        ],
        "statuses": dict(agent.statuses),
        "published": dict(agent.publishing),
        "store": {
            "bytes": agent.outbox.bytes,
            "maxBytes": agent.outbox.max_bytes,
            "diskFull": agent.disk_full,
            "salvaged": agent.salvaged,
            "encryption": {"encrypt": agent.encryption.extent, "key": agent.encryption.key},
        },
        "routes": msgspec.to_builtins(dict(agent.routes)),
    }


def _given_out(counts: tuple[int, int] | None) -> dict[str, int]:
    """Leases and retries; only brokered endpoints have them."""
    return {} if counts is None else {"leased": counts[0], "retrying": counts[1]}


def for_hub(agent: AgentStatus) -> message.EdgeStatus:
    """The status as the hub gets it, to write it into EdgeNode and EdgeRoutes."""
    return message.EdgeStatus(
        held=agent.held,
        queues=_whole_priorities(
            message.QueueStatus(
                endpoint=queue.endpoint,
                priority=base(queue.priority),
                length=queue.length,
                bytes=queue.bytes,
                oldest_age_seconds=round(queue.oldest_age_seconds, 1),
                **_stall_fields(agent, queue),
            )
            for queue in agent.outbox.queues
            if queue.length
        ),
        routes=dict(agent.routes),
        dead_letters=agent.outbox.dead_letters,
        delivery={name: delivery_policy.policy_summary(policy) for name, policy in agent.delivery.items()},
        to_table=[
            message.ToTable(
                priority=each.priority,
                measured=each.measured,
                p50_seconds=_two_digits(each.p50),
                p95_seconds=_two_digits(each.p95),
            )
            for each in agent.to_table
        ],
        store_bytes=agent.outbox.bytes,
        authorities=agent.identity.authorities if agent.identity is not None else "",
    )


def _whole_priorities(queues: Iterable[message.QueueStatus]) -> list[message.QueueStatus]:
    """A priority and its live lane merged, because the hub does not know lanes."""
    found: dict[tuple[str, int], message.QueueStatus] = {}
    for queue in queues:
        other = found.get((queue.endpoint, queue.priority))
        found[queue.endpoint, queue.priority] = queue if other is None else msgspec.structs.replace(
            max(queue, other, key=lambda each: each.stalled_seconds),
            length=queue.length + other.length,
            bytes=queue.bytes + other.bytes,
            oldest_age_seconds=max(queue.oldest_age_seconds, other.oldest_age_seconds),
        )  # fmt: skip
    return list(found.values())


def _two_digits(seconds: float) -> float:
    """Rounded to two digits, so that tiny changes do not cause the status to be sent."""
    return float(f"{seconds:.2g}")


def _stall_of(agent: AgentStatus, queue: QueueCounts) -> Stall | None:
    """Why nothing at all is taken from a queue."""
    return next((stall for stall in stalls_of(agent, queue) if not stall.topic), None)


def stalls_of(agent: AgentStatus, queue: QueueCounts) -> Sequence[Stall]:
    """Why nothing is taken from a queue or its topics; messages held for a refused route wait for the routes."""
    if not is_held_for_routes(queue.endpoint):
        return agent.stalls.get((queue.endpoint, queue.priority), ())
    if not queue.length:
        return ()
    refused = [
        f"EdgeRoutes {name}: {f'route {error.route}: ' if error.route else ''}{error.message}"
        for name, status in sorted(agent.routes.items())
        for error in status.errors
    ]
    reason = "; ".join(refused[:REFUSED_ROUTES_SHOWN]) or "the routes are being changed"
    seconds = round(queue.oldest_age_seconds, 3)
    return [Stall(for_seconds=seconds, code="route_refused", reason=reason, attempts=0, retry_in_seconds=None)]


def _stall_fields(agent: AgentStatus, queue: QueueCounts) -> dict[str, Any]:
    """Why nothing is taken from a queue; a used-up budget is reported in the same fields."""
    held = agent.queues_held.get((queue.endpoint, queue.priority))
    if held is None or held.why is not Why.DAY or not agent.line.used_up:
        stalls = stalls_of(agent, queue)
        return _stalled(_stall_of(agent, queue) or max(stalls, key=lambda stall: stall.for_seconds, default=None))
    reason = f"{held.why.value}: {plan_status.IN_WORDS[held.why]}; sending resumes when the next day begins"
    return {"stalled_seconds": STALLED_SECONDS, "stalled_by": reason[: message.NAME_CHARS_MAX]}


def _stalled(stall: Stall | None) -> dict[str, Any]:
    """Rounded down to half minutes, so that a growing age alone does not cause the status to be sent."""
    if stall is None or stall.for_seconds < STALLED_SECONDS:
        return {}
    steps = stall.for_seconds // STALLED_SECONDS
    topic = f"topic {stall.topic}: " if stall.topic else ""
    return {
        "stalled_seconds": steps * STALLED_SECONDS,
        "stalled_by": f"{topic}{stall.code}: {stall.reason}"[: message.NAME_CHARS_MAX],
    }


def seconds_since(now: float, then: float | None) -> float | None:
    """Seconds from ``then`` to ``now``, never negative; None if ``then`` is None."""
    return None if then is None else round(max(0.0, now - then), 3)
