"""The agent's status as metrics, for ``GET /metrics``."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_edge.agent_status import AgentStatus, seconds_since, stalls_of
from fairlead_edge.identity import certificate as identity_status
from fairlead_edge.metrics import Family, single
from fairlead_edge.mqtt import status as mqtt_status
from fairlead_edge.outbox.plan import status
from fairlead_edge.outbox.queues import base, is_live_lane


def families(agent: AgentStatus) -> list[Family]:
    """All metric families.  Label values are bounded: by queues, deferred topics, kinds of events, and reasons."""
    link, outbox = agent.link, agent.outbox
    contact = seconds_since(agent.now, link.last_contact)
    found = [
        single("fairlead_edge_connected", "gauge", "1 while a session with the hub is open", link.state == "connected"),
        single("fairlead_edge_objects_held", "gauge", "objects held for this node", agent.held),
        single("fairlead_edge_objects_bytes", "gauge", "disk space used by the object store", agent.object_bytes),
        single("fairlead_edge_objects_damaged_total", "counter", "objects found damaged on disk", agent.damaged),
        single("fairlead_edge_watches", "gauge", "open watches of local clients", agent.watches),
        single(
            "fairlead_edge_unsent_bytes",
            "gauge",
            "bytes of responses that local clients have not read yet",
            agent.unsent_bytes,
        ),
        Family(
            name="fairlead_edge_readers_closed_total",
            kind="counter",
            help="connections closed because the local client did not read",
            labels=("reason",),
            samples={(reason,): float(count) for reason, count in agent.readers_closed.items()},
        ),
        single("fairlead_edge_commits_total", "counter", "transactions of the object store", agent.commits),
        single("fairlead_edge_dead_letters", "gauge", "dead letters", outbox.dead_letters),
        single(
            "fairlead_edge_refused_input_bytes",
            "gauge",
            "space used by dead letters of refused input",
            outbox.refused_bytes,
        ),
        single(
            "fairlead_edge_refused_input_bytes_max",
            "gauge",
            "space that dead letters of refused input may use ([store] refused_share)",
            outbox.refused_bytes_max,
        ),
        single("fairlead_edge_outbox_bytes", "gauge", "bytes of stored messages", outbox.bytes),
        single("fairlead_edge_outbox_bytes_max", "gauge", "space for messages ([store] max_bytes)", outbox.max_bytes),
        Family(
            name="fairlead_edge_store_encrypted",
            kind="gauge",
            help="1 if the store on disk is encrypted",
            labels=("store",),
            samples={("objects",): agent.encryption.objects, ("messages",): agent.encryption.messages},
        ),
        _events("link", "sessions, frames, bytes, writes by outcome, ends by reason", agent.counters),
        _events("publish", "messages received, accepted, repeated, without a route, refused", agent.publishing),
        _events("receipts", "receipts answered, unknown, refused; questions to the hub", agent.receipts),
        Family(
            name="fairlead_edge_to_table_seconds",
            kind="gauge",
            help="time from acceptance to a table, over the latest 512 followed messages, by this node's clock",
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
            help="messages tracked until they were in a table",
            labels=("priority",),
            samples={(str(each.priority),): each.measured for each in agent.to_table},
        ),
        Family(
            name="fairlead_edge_statuses",
            kind="gauge",
            help="object statuses reported here: waiting, written to the cluster, refused permanently",
            labels=("state",),
            samples={(state,): float(count) for state, count in agent.statuses.items()},
        ),
        _events("status_report", "object statuses reported, sent, written, refused, deferred, lost", agent.reporting),
        _events("pump", "batches, messages, bytes, acked, refused, nacks", agent.pumping),
    ]
    held = {(endpoint, _place(priority)): each for (endpoint, priority), each in agent.queues_held.items()}
    found.extend(status.families(agent.line, held))
    offline = link.offline_at(agent.now)
    found.append(single("fairlead_edge_offline_seconds_total", "counter", "seconds without a session", offline))
    if contact is not None:
        found.append(
            single("fairlead_edge_last_contact_seconds", "gauge", "time since the last frame from the hub", contact)
        )
    found.append(
        Family(
            name="fairlead_edge_queue_stalled_seconds",
            kind="gauge",
            help="how long nothing has left the queue, or a deferred topic of it, although the hub is connected",
            labels=("endpoint", "priority", "topic"),
            samples={
                (queue.endpoint, _place(queue.priority), topic): seconds
                for queue in outbox.queues
                for topic, seconds in {
                    "": 0.0,
                    **{stall.topic: stall.for_seconds for stall in stalls_of(agent, queue)},
                }.items()
            },
        )
    )
    if agent.certificate_ends is not None:
        text = "Unix time at which the agent's own certificate expires; 0 if it cannot be read"
        found.append(single("fairlead_edge_certificate_ends_timestamp_seconds", "gauge", text, agent.certificate_ends))
    if agent.mqtt is not None:
        found.extend(mqtt_status.families(agent.mqtt))
    if agent.identity is not None:
        found.extend(identity_status.families(agent.identity))
    for place, name, text in (
        (0, "leased", "messages leased to modules and not acknowledged yet"),
        (1, "retrying", "messages waiting for their next delivery attempt to a module"),
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
        ("expired", "counter", "messages whose time to live expired"),
        ("evicted", "counter", "messages and dead letters evicted to make room, or discarded"),
        ("dead_lettered", "gauge", "dead letters"),
        ("damaged", "counter", "messages lost or damaged on disk"),
        ("in_doubt", "counter", "expired or evicted messages that may nevertheless be in their topic"),
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


def _place(priority: int) -> str:
    """A label: a priority, or its live lane."""
    return f"{base(priority)}-live" if is_live_lane(priority) else str(priority)
