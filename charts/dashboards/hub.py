"""The hub's dashboard: nodes, deliveries, the API server, messages from the edge."""

from __future__ import annotations

from charts.dashboards.panels import Panel, Row, one, per_second, quantiles

H = "fairlead_hub_"

ROWS = (
    Row(
        "Nodes",
        (
            Panel(
                "Edge nodes",
                "short",
                "Known nodes, connected nodes, and nodes whose comparison is in progress.",
                (
                    (f"sum({H}nodes)", "known"),
                    (f"sum({H}nodes_connected)", "connected"),
                    (f"sum({H}nodes_waiting)", "comparing"),
                    (f"sum({H}nodes_to_return)", "not back since the last start"),
                ),
            ),
            Panel(
                "Paused or guarded",
                "short",
                "Paused nodes and objects, and nodes whose deletions wait for approval.",
                (
                    (f"sum({H}nodes_paused)", "nodes paused"),
                    (f"sum({H}objects_paused)", "objects paused"),
                    (f"sum({H}nodes_deletion_guard)", "deletion guard"),
                ),
            ),
            Panel(
                "Connections",
                "ops",
                "Sessions opened, sessions refused or ended by reason, and connections that never became a session.",
                (
                    (per_second(f"{H}handshakes_total"), "opened"),
                    (per_second(f"{H}refused_sessions_total", "code"), "refused: {{code}}"),
                    (per_second(f"{H}openings_failed_total", "reason"), "failed: {{reason}}"),
                ),
            ),
        ),
    ),
    Row(
        "Deliveries",
        (
            Panel("Change to ack", "s", "Time from a change to its ack.", quantiles(f"{H}delivery_seconds")),
            Panel(
                "Undelivered",
                "short",
                "Objects queued, sent but not answered, parked, and withheld.",
                (
                    (f"sum({H}queue_depth)", "queued"),
                    (f"sum({H}in_flight)", "in flight"),
                    (f"sum({H}pending_objects)", "pending"),
                    (f"sum({H}parked_objects)", "parked"),
                    (f"sum({H}withheld_objects)", "withheld"),
                    (f"sum({H}kept_objects)", "deletion not certain"),
                ),
            ),
            one(
                "Oldest undelivered",
                "s",
                "Age of the oldest undelivered object.",
                f"max({H}pending_oldest_seconds)",
                alarm=600,
            ),
            Panel(
                "Acknowledged",
                "ops",
                "Objects and deletes that nodes acknowledged as durable, and changes that did not change the content.",
                (
                    (per_second(f"{H}acks_total"), "objects"),
                    (per_second(f"{H}removals_total"), "deletes"),
                    (per_second(f"{H}same_content_total"), "same content"),
                ),
            ),
            Panel(
                "Failures",
                "ops",
                "Sends that were retried, and objects that were parked, by reason.",
                (
                    (per_second(f"{H}retries_total", "reason"), "retry: {{reason}}"),
                    (per_second(f"{H}parkings_total", "reason"), "parked: {{reason}}"),
                ),
            ),
            Panel(
                "Link",
                "Bps",
                "Bytes to and from all nodes.",
                ((per_second(f"{H}sent_bytes_total"), "sent"), (per_second(f"{H}received_bytes_total"), "received")),
            ),
        ),
    ),
    Row(
        "API server",
        (
            Panel(
                "Followed",
                "s",
                "Age of the oldest stale collection, and of the oldest unwritten status.",
                ((f"max({H}stale_seconds)", "watch"), (f"max({H}status_lag_seconds)", "status")),
                alarm=60,
            ),
            one(
                "Requests",
                "reqps",
                "Requests to the API server by method.",
                per_second(f"{H}api_requests_total", "method"),
                "{{method}}",
            ),
            Panel(
                "Status documents",
                "short",
                "Documents waiting to be written, and documents that the API server refuses.",
                ((f"sum({H}status_dirty)", "waiting"), (f"sum({H}status_refused)", "refused")),
            ),
            Panel(
                "Rules",
                "short",
                "Invalid rules and routes, kinds that the hub cannot list, and versions that are not served.",
                (
                    (f"sum by (collection) ({H}rules_unreadable)", "{{collection}}"),
                    (f"sum({H}kinds_frozen)", "kinds not listed"),
                    (f"sum({H}versions_unserved)", "versions not served"),
                ),
            ),
            one("Objects watched", "short", "Objects in the hub's cache.", f"sum({H}objects_watched)"),
            one(
                "Watch restarts",
                "ops",
                "By reason.",
                per_second(f"{H}watch_restarts_total", "reason"),
                "{{reason}}",
            ),
        ),
    ),
    Row(
        "Messages from the edge",
        (
            Panel(
                "Stored",
                "ops",
                "Messages stored in topics, and messages that had already been stored.",
                (
                    (per_second(f"{H}upstream_messages_total"), "stored"),
                    (per_second(f"{H}upstream_duplicates_total"), "known"),
                ),
            ),
            Panel(
                "Not stored",
                "ops",
                "Batches that nodes must send again, and messages refused permanently, by code.",
                (
                    (per_second(f"{H}upstream_deferred_total", "code"), "again: {{code}}"),
                    (per_second(f"{H}upstream_refused_total", "code"), "refused: {{code}}"),
                ),
            ),
            Panel(
                "Events",
                "ops",
                "Events published on the system topic, and events dropped because the queue was full.",
                (
                    (per_second(f"{H}events_published_total"), "published"),
                    (per_second(f"{H}events_dropped_total"), "dropped"),
                ),
            ),
        ),
    ),
)
