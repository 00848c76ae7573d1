"""Ingest's dashboard: tables, batches, trouble."""

from __future__ import annotations

from charts.dashboards.panels import Panel, Row, one, per_second, quantiles

IN = "fairlead_ingest_"

ROWS = (
    Row(
        "Tables",
        (
            one("Rows", "ops", "Rows committed a second.", per_second(f"{IN}rows_total", "pipeline"), "{{pipeline}}"),
            one(
                "Behind",
                "short",
                "Messages in the topic that are not in the table yet.",
                f"max by (pipeline, topic) ({IN}lag_rows)",
                "{{pipeline}} {{topic}}",
            ),
            one(
                "Age of the oldest of them",
                "s",
                "Age of the oldest message that is not in the table yet.",
                f"max by (pipeline, topic) ({IN}lag_seconds)",
                "{{pipeline}} {{topic}}",
                alarm=900,
            ),
            Panel(
                "Edge to row",
                "s",
                "From acceptance at the edge to the row on disk.",
                quantiles(f"{IN}freshness_seconds", "pipeline"),
            ),
            one(
                "Since the last commit",
                "s",
                "Also grows while no messages arrive.",
                f"time() - max by (pipeline) ({IN}last_commit_timestamp_seconds)",
                "{{pipeline}}",
            ),
            one(
                "Bytes",
                "Bps",
                "Bytes of Parquet committed.",
                per_second(f"{IN}bytes_total", "pipeline"),
                "{{pipeline}}",
            ),
            one(
                "Files",
                "short",
                "Files that a reader of the whole table opens.",
                f"max by (pipeline) ({IN}table_files)",
                "{{pipeline}}",
            ),
            one(
                "Bytes a file",
                "bytes",
                "Mean file size. Small files make queries slow; compaction joins them.",
                f"max by (pipeline) ({IN}table_bytes) / max by (pipeline) ({IN}table_files > 0)",
                "{{pipeline}}",
            ),
        ),
    ),
    Row(
        "Batches",
        (
            one("Duration", "s", "Of the last batch.", f"max by (pipeline) ({IN}batch_seconds)", "{{pipeline}}"),
            one("Size", "short", "Rows of the last batch.", f"max by (pipeline) ({IN}batch_rows)", "{{pipeline}}"),
            one("Batches", "ops", "Batches committed.", per_second(f"{IN}batches_total", "pipeline"), "{{pipeline}}"),
        ),
    ),
    Row(
        "Latest tables",
        (
            one(
                "Keys",
                "short",
                "Keys in the latest table that are not marked as deleted.",
                f"max by (pipeline) ({IN}latest_keys)",
                "{{pipeline}}",
            ),
            one(
                "Refresh",
                "s",
                "Duration of the last refresh of the latest table.",
                f"max by (pipeline) ({IN}latest_refresh_seconds)",
                "{{pipeline}}",
            ),
            one(
                "Latest table stopped",
                "short",
                "1: the latest table is no longer updated and needs attention; the rows table continues.",
                f"max by (pipeline) ({IN}latest_stopped)",
                "{{pipeline}}",
                alarm=1,
            ),
        ),
    ),
    Row(
        "Trouble",
        (
            one(
                "Stopped",
                "short",
                "1: the pipeline stopped and needs attention.",
                f"max by (pipeline) ({IN}stopped)",
                "{{pipeline}}",
                alarm=1,
            ),
            one(
                "Failures",
                "short",
                "Queries that failed within an hour.",
                f"sum by (pipeline) (increase({IN}failures_total[1h]))",
                "{{pipeline}}",
            ),
            Panel(
                "Not in the table",
                "short",
                "Within an hour: dead letters, messages removed by a transform, and messages that expired unread.",
                (
                    (f"sum by (pipeline) (increase({IN}dead_letters_total[1h]))", "{{pipeline}} dead letters"),
                    (f"sum by (pipeline) (increase({IN}filtered_total[1h]))", "{{pipeline}} filtered"),
                    (f"sum by (pipeline) (increase({IN}expired_unread_total[1h]))", "{{pipeline}} expired unread"),
                ),
            ),
            one(
                "Gaps",
                "short",
                "Ranges of topics that were never read, within a day: rows of the gaps table.",
                f"sum by (pipeline) (increase({IN}gaps_total[1d]))",
                "{{pipeline}}",
            ),
        ),
    ),
)
