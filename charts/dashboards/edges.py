"""The dashboard of edge agents: links, queues, stores."""

from __future__ import annotations

from charts.dashboards.panels import RATE, Panel, Row, number, one, per_second

E = "fairlead_edge_"
NODES = "node, instance"
AT = "{{node}} {{instance}}"
QUEUE = "{{node}} {{instance}} {{endpoint}} {{priority}}"

ROWS = (
    Row(
        "Agents",
        (
            number("Agents connected", "short", "Agents with a session, as they say themselves.", f"sum({E}connected)"),
            one(
                "Time without a session",
                "percentunit",
                "Share of time during which an agent had no session.",
                f"sum by ({NODES}) (rate({E}offline_seconds_total{RATE}))",
                AT,
            ),
            one(
                "Last contact", "s", "Since the hub was last heard.", f"max by ({NODES}) ({E}last_contact_seconds)", AT
            ),
            one("Objects held", "short", "Objects the node holds.", f"sum by ({NODES}) ({E}objects_held)", AT),
            one(
                "Objects on disk",
                "bytes",
                "Disk space used by the object store.",
                f"sum by ({NODES}) ({E}objects_bytes)",
                AT,
            ),
            one("Local watches", "short", "Watches that applications have open.", f"sum by ({NODES}) ({E}watches)", AT),
        ),
    ),
    Row(
        "Messages",
        (
            one(
                "Waiting",
                "short",
                "Messages in each queue.",
                f"sum by ({NODES}, endpoint, priority) ({E}queue_length)",
                QUEUE,
            ),
            one(
                "Oldest waiting",
                "s",
                "Age of the oldest message of each queue.",
                f"max by ({NODES}, endpoint, priority) ({E}queue_oldest_age_seconds)",
                QUEUE,
            ),
            one(
                "Stalled",
                "s",
                "How long nothing has left a queue although the hub is connected.",
                f"max by ({NODES}, endpoint, priority, topic) ({E}queue_stalled_seconds)",
                f"{QUEUE} {{{{topic}}}}",
                alarm=300,
            ),
            one(
                "Held back",
                "short",
                "Queues whose messages are held back: outside their hours, daily budget used up, or rate limit.",
                f"max by ({NODES}, endpoint, priority, by) ({E}queue_held)",
                QUEUE + " {{by}}",
            ),
            Panel(
                "Carried today",
                "bytes",
                "Bytes on the link since its day began, both ways, and the limit of its data plan.",
                (
                    (f"max by ({NODES}) ({E}link_day_bytes)", f"{AT} carried"),
                    (f"max by ({NODES}) ({E}link_day_bytes_max > 0)", f"{AT} allowed"),
                ),
            ),
            Panel(
                "Accepted and delivered",
                "ops",
                "Messages stored, and messages delivered to their endpoint.",
                (
                    (per_second(f"{E}queue_accepted_total", NODES), f"{AT} accepted"),
                    (per_second(f"{E}queue_sent_total", NODES), f"{AT} delivered"),
                ),
            ),
            one(
                "From acceptance to a table",
                "s",
                "Median and 95th percentile of the latest 512 messages of a priority that an agent followed.",
                f"max by ({NODES}, priority, quantile) ({E}to_table_seconds)",
                "{{node}} {{instance}} {{priority}} {{quantile}}",
            ),
            one(
                "Store",
                "percentunit",
                "Share of the space for messages that is used.",
                f"max by ({NODES}) ({E}outbox_bytes / {E}outbox_bytes_max)",
                AT,
                alarm=0.8,
            ),
            Panel(
                "Leased to modules",
                "short",
                "Messages leased to modules and not acknowledged yet, and messages waiting for their next attempt.",
                (
                    (f"sum by ({NODES}, endpoint) ({E}queue_leased)", "{{node}} {{endpoint}} leased"),
                    (f"sum by ({NODES}, endpoint) ({E}queue_retrying)", "{{node}} {{endpoint}} retrying"),
                ),
            ),
        ),
    ),
    Row(
        "Trouble",
        (
            one(
                "Dead letters",
                "short",
                "Messages that were refused permanently.",
                f"sum by ({NODES}) ({E}dead_letters)",
                AT,
            ),
            Panel(
                "Not delivered",
                "short",
                "Within an hour: messages that expired, were evicted, or were damaged on disk.",
                (
                    (f"sum by ({NODES}) (increase({E}queue_expired_total[1h]))", f"{AT} expired"),
                    (f"sum by ({NODES}) (increase({E}queue_evicted_total[1h]))", f"{AT} evicted"),
                    (f"sum by ({NODES}) (increase({E}queue_damaged_total[1h]))", f"{AT} damaged"),
                ),
            ),
            one(
                "Link and requests",
                "ops",
                "Events of the link, of publishing, and of sending messages, by event.",
                "sum by (event) ("
                + " or ".join(f"rate({E}{part}_events_total{RATE})" for part in ("link", "publish", "pump"))
                + ")",
                "{{event}}",
            ),
        ),
    ),
)
