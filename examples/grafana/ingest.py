"""Writes the Grafana dashboard of ingest:  python examples/grafana/ingest.py > ingest.json"""

import json
import sys

PREFIX = "fairlead_ingest_"
PANELS = (
    ("Rows a second", "short", f"sum by (pipeline) (rate({PREFIX}rows_total[1m]))"),
    ("Messages behind", "short", f"max by (pipeline, topic) ({PREFIX}lag_rows)"),
    ("Seconds behind", "s", f"max by (pipeline, topic) ({PREFIX}lag_seconds)"),
    (
        "Freshness, 95 %: edge to row",
        "s",
        f"histogram_quantile(0.95, sum by (pipeline, le) (rate({PREFIX}freshness_seconds_bucket[5m])))",
    ),
    ("Seconds a batch", "s", f"max by (pipeline) ({PREFIX}batch_seconds)"),
    ("Seconds since the last commit", "s", f"time() - max by (pipeline) ({PREFIX}last_commit_timestamp_seconds)"),
    ("Dead letters a minute", "short", f"60 * sum by (pipeline) (rate({PREFIX}dead_letters_total[5m]))"),
    ("Expired unread", "short", f"sum by (pipeline) (increase({PREFIX}expired_unread_total[1h]))"),
)


def dashboard() -> dict[str, object]:
    """Two panels a row; the data source is asked for at import."""
    panels = [
        {
            "id": index + 1,
            "type": "timeseries",
            "title": title,
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "gridPos": {"h": 8, "w": 12, "x": 12 * (index % 2), "y": 8 * (index // 2)},
            "targets": [{"expr": expression, "refId": "A"}],
        }
        for index, (title, unit, expression) in enumerate(PANELS)
    ]
    variable = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    return {
        "title": "Fairlead ingest",
        "uid": "fairlead-ingest",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [variable]},
        "panels": panels,
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=1)
    print()
