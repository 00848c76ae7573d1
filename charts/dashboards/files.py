"""Whole dashboards, and the files they are written to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from charts.dashboards import edges, hub, ingest, messaging
from charts.dashboards.panels import Row, panels

FOLDER = Path(__file__).resolve().parents[1] / "fairlead" / "files" / "dashboards"
SCHEMA = 39
"""Of Grafana 10.4; later versions read it."""
DASHBOARDS: Mapping[str, tuple[str, Sequence[Row]]] = {
    "hub": ("Fairlead: hub", hub.ROWS),
    "edges": ("Fairlead: edges", edges.ROWS),
    "messaging": ("Fairlead: messaging", messaging.ROWS),
    "ingest": ("Fairlead: ingest", ingest.ROWS),
}
"""File name to title and rows."""


def dashboard(name: str) -> dict[str, Any]:
    """One of them, whole."""
    title, rows = DASHBOARDS[name]
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}
    link = {"type": "dashboards", "title": "Fairlead", "tags": ["fairlead"], "asDropdown": True, "includeVars": True}
    return {
        "uid": f"fairlead-{name}",
        "title": title,
        "tags": ["fairlead"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source]},
        "links": [link],
        "panels": panels(rows),
    }


def wanted(name: str) -> str:
    """The file's text as it should be."""
    return json.dumps(dashboard(name), indent=1, sort_keys=True) + "\n"


def write() -> None:
    """All of them."""
    FOLDER.mkdir(exist_ok=True)
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(wanted(name))
