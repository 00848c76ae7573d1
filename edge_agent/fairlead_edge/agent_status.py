"""The agent's status: for ``GET /v1/status``, for the hub, and as metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_edge.identity import status as identity_status
from fairlead_edge.identity.status import CertificateStatus
from fairlead_edge.link_state import LinkState
from fairlead_edge.metrics import Family, single
from fairlead_edge.mqtt import status as mqtt_status
from fairlead_edge.mqtt.status import MqttStatus
from fairlead_edge.outbox.outbox import OutboxStatus, QueueCounts
from fairlead_edge.outbox.plan import line_metrics
from fairlead_edge.outbox.plan import status as plan_status
from fairlead_edge.outbox.plan.gate import HeldUntil, Why
from fairlead_edge.outbox.plan.status import LineStatus
from fairlead_edge.outbox.queue_id import base, is_held_for_routes, is_live_lane
from fairlead_edge.outbox.receipts.latency import Quantiles
from fairlead_wire import message
from fairlead_wire.delivery_policy import DeliveryPolicy, policy_summary

STALLED_SECONDS: Final = 30.0
"""A queue of which nothing was taken for so long stands still."""


REFUSED_ROUTES_SHOWN: Final = 3
"""As the reason why messages are held; the others are in the status of the routes."""


class Stall(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue of which nothing is taken, or a ``topic`` of it that the hub deferred: for how long, the last answer, how
    often, and when it is tried next."""

    topic: str = ""
    for_seconds: float
    code: str
    reason: str
    attempts: int
    retry_in_seconds: float | None


class Encryption(msgspec.Struct, frozen=True):
    """What of the stores is encrypted on disk, and the fingerprint of the key it is encrypted with."""

    extent: str = "none"
    key: str = ""
    objects: bool = False
    messages: bool = False


class AgentStatus(msgspec.Struct, kw_only=True):
    """One moment: ``now`` is of the store's clock; ``counters`` hold the link's events since the start."""

    node: str
    agent: str
    store_epoch: int
    now: float
    link: LinkState
    held: int
    object_bytes: int = 0
    """Of the file that holds the objects; with the messages' it counts against ``store.max_bytes``."""
    object_bytes_max: int = 0
    commits: int
    watches: int
    unsent_bytes: int = 0
    """Answers of the local API that wait to be read."""
    readers_closed: Mapping[str, int] = {}
    """Clients whose connection was closed because they did not read, by reason."""
    counters: Mapping[str, int]
    outbox: OutboxStatus
    routes: Mapping[str, message.RoutesStatus]
    publishing: Mapping[str, int]
    """Requests of producers: received, accepted, repeated, without a route, refused by code."""
    delivery: Mapping[str, DeliveryPolicy] = {}
    """The policies by which messages go again: to the hub (``upstream``) and to modules (``brokered``)."""
    salvaged: str = ""
    """Why a store was found damaged and salvaged when it was opened."""
    damaged: int = 0
    """Objects found changed by the disk since the start; the hub sends them again."""
    pumping: Mapping[str, int]
    """What went up: batches, messages, bytes, acked, refused, nacks by code."""
    stalls: Mapping[tuple[str, int], Sequence[Stall]] = {}
    """By endpoint and priority: of the queue, and of deferred topics of it."""
    certificate_ends: float | None = None
    """A Unix time; 0: it cannot be read, None: there is none."""
    encryption: Encryption = Encryption()
    identity: CertificateStatus | None = None
    """None: security is off."""
    mqtt: MqttStatus | None = None
    """None: MQTT is not spoken."""
    receipts: Mapping[str, int] = {}
    """Receipts answered, unknown, refused; questions to the hub."""
    to_table: Sequence[Quantiles] = ()
    """How long messages take from here to a table, by priority."""
    statuses: Mapping[str, int] = {}
    """Status that programs reported of objects, by state."""
    reporting: Mapping[str, int] = {}
    """Its outcome: reported, sent, written, refused, put off, lost with the link."""
    given_out: Mapping[tuple[str, int], tuple[int, int]] = {}
    """By brokered endpoint and priority: messages that modules have, and those that wait for their next attempt."""
    line: LineStatus = LineStatus()
    """What the link carried, and what it may carry a day."""
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
            "sinceSeconds": _ago(agent.now, link.since),
            "offlineSeconds": link.offline_at(agent.now),
            "lastContactSeconds": _ago(agent.now, link.last_contact),
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
                "deferredTopics": [msgspec.to_builtins(stall) for stall in _stalls_of(agent, queue) if stall.topic],
                "held": plan_status.held(agent.queues_held.get((queue.endpoint, queue.priority)), agent.now),
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
            name: {**msgspec.to_builtins(policy), "summary": policy_summary(policy)}
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
            "salvaged": agent.salvaged,
            "encryption": {"encrypt": agent.encryption.extent, "key": agent.encryption.key},
        },
        "routes": msgspec.to_builtins(dict(agent.routes)),
    }


def _given_out(counts: tuple[int, int] | None) -> dict[str, int]:
    """Only brokered endpoints have it."""
    return {} if counts is None else {"leased": counts[0], "retrying": counts[1]}


def for_hub(agent: AgentStatus) -> message.EdgeStatus:
    """What the hub writes into EdgeNode and EdgeRoutes."""
    return message.EdgeStatus(
        held=agent.held,
        queues=_whole_priorities(
            message.QueueStatus(
                endpoint=queue.endpoint,
                priority=base(queue.priority),
                length=queue.length,
                bytes=queue.bytes,
                oldest_age_seconds=round(queue.oldest_age_seconds, 1),
                **_stands_still(agent, queue),
            )
            for queue in agent.outbox.queues
            if queue.length
        ),
        routes=dict(agent.routes),
        dead_letters=agent.outbox.dead_letters,
        delivery={name: policy_summary(policy) for name, policy in agent.delivery.items()},
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
    """A priority and its live lane as one: the hub knows no lanes."""
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


def _place(priority: int) -> str:
    """A label: a priority, or its live lane."""
    return f"{base(priority)}-live" if is_live_lane(priority) else str(priority)


def _two_digits(seconds: float) -> float:
    """A status that says nothing new is not sent."""
    return float(f"{seconds:.2g}")


def _stall_of(agent: AgentStatus, queue: QueueCounts) -> Stall | None:
    """Why nothing at all is taken of a queue."""
    return next((stall for stall in _stalls_of(agent, queue) if not stall.topic), None)


def _stalls_of(agent: AgentStatus, queue: QueueCounts) -> Sequence[Stall]:
    """Why nothing is taken of a queue, or of topics of it; what is held for a refused route waits for the routes."""
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


def _stands_still(agent: AgentStatus, queue: QueueCounts) -> dict[str, Any]:
    """Why nothing of it is taken.  That a budget is used up is said in the same place: hubs of all versions show it."""
    held = agent.queues_held.get((queue.endpoint, queue.priority))
    if held is None or held.why is not Why.DAY or not agent.line.used_up:
        stalls = _stalls_of(agent, queue)
        return _stalled(_stall_of(agent, queue) or max(stalls, key=lambda stall: stall.for_seconds, default=None))
    said = f"{held.why.value}: {plan_status.IN_WORDS[held.why]}; it goes on when the next day begins"
    return {"stalled_seconds": STALLED_SECONDS, "stalled_by": said[: message.NAME_CHARS_MAX]}


def _stalled(stall: Stall | None) -> dict[str, Any]:
    """To the half minute: a status that says nothing new is not sent."""
    if stall is None or stall.for_seconds < STALLED_SECONDS:
        return {}
    steps = stall.for_seconds // STALLED_SECONDS
    topic = f"topic {stall.topic}: " if stall.topic else ""
    return {
        "stalled_seconds": steps * STALLED_SECONDS,
        "stalled_by": f"{topic}{stall.code}: {stall.reason}"[: message.NAME_CHARS_MAX],
    }


def families(agent: AgentStatus) -> list[Family]:
    """Metrics.  No label takes more values than there are queues, deferred topics, kinds of events, or reasons."""
    link, outbox = agent.link, agent.outbox
    contact = _ago(agent.now, link.last_contact)
    found = [
        single("fairlead_edge_connected", "gauge", "1 while a session with the hub is open", link.state == "connected"),
        single("fairlead_edge_objects_held", "gauge", "objects held for this node", agent.held),
        single("fairlead_edge_objects_bytes", "gauge", "room the objects' store takes on disk", agent.object_bytes),
        single("fairlead_edge_objects_damaged_total", "counter", "objects the disk changed", agent.damaged),
        single("fairlead_edge_watches", "gauge", "open watches of local clients", agent.watches),
        single(
            "fairlead_edge_unsent_bytes", "gauge", "answers that local clients did not read yet", agent.unsent_bytes
        ),
        Family(
            name="fairlead_edge_readers_closed_total",
            kind="counter",
            help="connections of local clients closed because they did not read",
            labels=("reason",),
            samples={(reason,): float(count) for reason, count in agent.readers_closed.items()},
        ),
        single("fairlead_edge_commits_total", "counter", "transactions of the object store", agent.commits),
        single("fairlead_edge_dead_letters", "gauge", "messages in the dead letters", outbox.dead_letters),
        single(
            "fairlead_edge_refused_input_bytes",
            "gauge",
            "room dead letters of refused input take",
            outbox.refused_bytes,
        ),
        single(
            "fairlead_edge_refused_input_bytes_max",
            "gauge",
            "room they may take ([store] refused_share)",
            outbox.refused_bytes_max,
        ),
        single("fairlead_edge_outbox_bytes", "gauge", "bytes of messages held", outbox.bytes),
        single("fairlead_edge_outbox_bytes_max", "gauge", "room for messages ([store] max_bytes)", outbox.max_bytes),
        Family(
            name="fairlead_edge_store_encrypted",
            kind="gauge",
            help="1 where the store on disk is encrypted",
            labels=("store",),
            samples={("objects",): agent.encryption.objects, ("messages",): agent.encryption.messages},
        ),
        _events("link", "sessions, frames, bytes, writes by outcome, ends by reason", agent.counters),
        _events("publish", "messages received, accepted, repeated, without a route, refused", agent.publishing),
        _events("receipts", "receipts answered, unknown, refused; questions to the hub", agent.receipts),
        Family(
            name="fairlead_edge_to_table_seconds",
            kind="gauge",
            help="from acceptance to a table, of the latest 512 that were followed, by this node's clock",
            labels=("priority", "quantile"),
            samples={
                (str(each.priority), quantile): seconds
                for each in agent.to_table
                for quantile, seconds in (("0.5", each.p50), ("0.95", each.p95))
            },
        ),
        Family(
            name="fairlead_edge_to_table_measured_total",
            kind="counter",
            help="messages that were followed to a table",
            labels=("priority",),
            samples={(str(each.priority),): each.measured for each in agent.to_table},
        ),
        Family(
            name="fairlead_edge_statuses",
            kind="gauge",
            help="status reported here of objects: waiting, written into the cluster, refused for good",
            labels=("state",),
            samples={(state,): float(count) for state, count in agent.statuses.items()},
        ),
        _events("status_report", "status of objects reported, sent, written, refused, put off, lost", agent.reporting),
        _events("pump", "batches, messages, bytes, acked, refused, nacks", agent.pumping),
    ]
    held = {(endpoint, _place(priority)): each for (endpoint, priority), each in agent.queues_held.items()}
    found.extend(line_metrics.families(agent.line, held))
    offline = link.offline_at(agent.now)
    found.append(single("fairlead_edge_offline_seconds_total", "counter", "time without a session", offline))
    if contact is not None:
        found.append(single("fairlead_edge_last_contact_seconds", "gauge", "since the hub was last heard", contact))
    found.append(
        Family(
            name="fairlead_edge_queue_stalled_seconds",
            kind="gauge",
            help="since when nothing was taken of what waits, or of a deferred topic, while the hub is there",
            labels=("endpoint", "priority", "topic"),
            samples={
                (queue.endpoint, _place(queue.priority), topic): seconds
                for queue in outbox.queues
                for topic, seconds in {
                    "": 0.0,
                    **{stall.topic: stall.for_seconds for stall in _stalls_of(agent, queue)},
                }.items()
            },
        )
    )
    if agent.certificate_ends is not None:
        text = "when our own certificate ends, a Unix time; 0: it cannot be read"
        found.append(single("fairlead_edge_certificate_ends_timestamp_seconds", "gauge", text, agent.certificate_ends))
    if agent.mqtt is not None:
        found.extend(mqtt_status.families(agent.mqtt))
    if agent.identity is not None:
        found.extend(identity_status.families(agent.identity))
    for place, name, text in (
        (0, "leased", "messages that modules have taken and not acknowledged"),
        (1, "retrying", "messages that wait for their next attempt at a module"),
    ):
        found.append(
            Family(
                name=f"fairlead_edge_queue_{name}",
                kind="gauge",
                help=text,
                labels=("endpoint", "priority"),
                samples={(end, str(priority)): counts[place] for (end, priority), counts in agent.given_out.items()},
            )
        )
    for name, kind, text in (
        ("length", "gauge", "messages waiting"),
        ("bytes", "gauge", "bytes waiting"),
        ("oldest_age_seconds", "gauge", "age of the oldest message waiting"),
        ("accepted", "counter", "messages stored"),
        ("sent", "counter", "messages delivered"),
        ("expired", "counter", "messages whose time to live ended"),
        ("evicted", "counter", "messages and dead letters evicted to make room, or discarded"),
        ("dead_lettered", "gauge", "messages in the dead letters"),
        ("damaged", "counter", "messages the disk lost or changed"),
        ("in_doubt", "counter", "messages expired or evicted that may be in their topic"),
    ):
        found.append(
            Family(
                name=f"fairlead_edge_queue_{name}" + ("_total" if kind == "counter" else ""),
                kind="counter" if kind == "counter" else "gauge",
                help=text,
                labels=("endpoint", "priority"),
                samples={
                    (queue.endpoint, _place(queue.priority)): float(getattr(queue, name)) for queue in outbox.queues
                },
            )
        )
    return found


def _events(part: str, help: str, counters: Mapping[str, int]) -> Family:
    return Family(
        name=f"fairlead_edge_{part}_events_total",
        kind="counter",
        help=help,
        labels=("event",),
        samples={(event,): float(count) for event, count in counters.items()},
    )


def _ago(now: float, then: float | None) -> float | None:
    return None if then is None else round(max(0.0, now - then), 3)
