"""Messaging's dashboard: topics, readers, transactions, the service itself."""

from __future__ import annotations

from charts.dashboards.panels import RATE, Panel, Row, one, per_second, quantiles

M = "fairlead_messaging_"

ROWS = (
    Row(
        "Topics",
        (
            one(
                "Published",
                "ops",
                "Messages stored, by topic.",
                per_second(f"{M}published_messages_total", "topic"),
                "{{topic}}",
            ),
            one(
                "Bytes published",
                "Bps",
                "Payload bytes stored, by topic.",
                per_second(f"{M}published_bytes_total", "topic"),
                "{{topic}}",
            ),
            one(
                "Read",
                "ops",
                "Messages returned to readers, by topic.",
                per_second(f"{M}polled_messages_total", "topic"),
                "{{topic}}",
            ),
            one("Stored", "short", "Messages in a topic.", f"sum by (topic) ({M}topic_messages)", "{{topic}}"),
            one("Bytes held", "bytes", "Payload a topic holds.", f"sum by (topic) ({M}topic_bytes)", "{{topic}}"),
            one(
                "Known messages",
                "ops",
                "Messages of producers that had already been stored.",
                per_second(f"{M}known_messages_total", "topic"),
                "{{topic}}",
            ),
        ),
    ),
    Row(
        "Readers and transactions",
        (
            one(
                "Behind",
                "short",
                "Number of messages by which each named reader is behind.",
                f"max by (topic, reader) ({M}reader_lag_messages)",
                "{{reader}} {{topic}}",
            ),
            one(
                "Age of the next message",
                "s",
                "Age of the next message of each named reader.",
                f"max by (topic, reader) ({M}reader_lag_seconds)",
                "{{reader}} {{topic}}",
                alarm=900,
            ),
            one(
                "Held up",
                "s",
                "Age of a topic's first uncommitted message.",
                f"max by (topic) ({M}topic_blocked_seconds)",
                "{{topic}}",
                alarm=600,
            ),
            Panel(
                "Transactions",
                "short",
                "Transactions that may still publish, and aborted ones whose messages are not all marked yet.",
                (
                    (f"sum({M}transactions_in_progress)", "in progress"),
                    (f"sum({M}transactions_unmarked)", "to be marked"),
                ),
            ),
            one(
                "Oldest transaction",
                "s",
                "Age of the oldest transaction in progress.",
                f"max({M}transactions_oldest_seconds)",
            ),
            one(
                "Pushed",
                "ops",
                "Messages of subscriptions, by outcome.",
                per_second(f"{M}pushed_messages_total", "outcome"),
                "{{outcome}}",
            ),
        ),
    ),
    Row(
        "Service",
        (
            Panel("Publish", "s", "Time until a publish is durable.", quantiles(f"{M}publish_seconds")),
            Panel("Poll", "s", "Duration of a poll, including the wait.", quantiles(f"{M}poll_seconds")),
            Panel(
                "Writes",
                "ops",
                "Durable writes, and failed writes.",
                ((per_second(f"{M}batches_total"), "durable"), (per_second(f"{M}storage_failures_total"), "failed")),
            ),
            Panel(
                "Memory",
                "bytes",
                "Request bodies being received, pages being sent, and cached pages.",
                (
                    (f"sum({M}body_bytes)", "bodies"),
                    (f"sum({M}page_bytes)", "pages"),
                    (f"sum({M}cache_bytes)", "cache"),
                ),
            ),
            Panel(
                "Connections",
                "short",
                "Open connections by port, waiting readers, and commands waiting for a write.",
                (
                    (f"sum by (port) ({M}connections)", "port {{port}}"),
                    (f"sum({M}long_polls)", "waiting readers"),
                    (f"sum({M}waiting_commands)", "waiting commands"),
                ),
            ),
            one(
                "Refused",
                "reqps",
                "Requests refused, by code.",
                per_second(f"{M}refused_requests_total", "code"),
                "{{code}}",
            ),
            one(
                "Answered from memory",
                "percentunit",
                "Share of polls answered from the cache.",
                f"sum(rate({M}cache_hits_total{RATE})) / "
                f"(sum(rate({M}cache_hits_total{RATE})) + sum(rate({M}cache_misses_total{RATE})))",
            ),
            one(
                "Cleaned",
                "ops",
                "Removals by cleanup; a whole range counts as one.",
                per_second(f"{M}removed_rows_total"),
            ),
            one(
                "Closed connections",
                "ops",
                "By reason.",
                per_second(f"{M}closed_connections_total", "reason"),
                "{{reason}}",
            ),
        ),
    ),
)
