"""Dashboards: the files are what the tables say, and every metric in a panel or an alert is one that a room has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts.dashboards import files
from tests.support.kube.charts import CHARTS

every_dashboard = pytest.mark.parametrize("name", files.DASHBOARDS)
ROOMS = {"hub": "operator", "edge": "edge_agent", "messaging": "messaging", "ingest": "ingest"}
"""What stands behind `fairlead_` in a metric's name, and where its source is."""


@every_dashboard
def test_the_files_are_what_the_tables_say(name: str) -> None:
    """Also the same each time."""
    assert (files.FOLDER / f"{name}.json").read_text() == files.wanted(name), (
        "run: .venv/bin/python -m charts.dashboards"
    )
    assert {path.stem for path in files.FOLDER.iterdir()} == set(files.DASHBOARDS)


def panels(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = files.dashboard(name)["panels"]
    return found


@every_dashboard
def test_panels_are_complete_and_lie_beside_each_other(name: str) -> None:
    """Unique ids, a unit, a sentence, a legend for each query; none over another."""
    dashboard = files.dashboard(name)
    assert dashboard["templating"]["list"][0]["type"] == "datasource"
    assert len({panel["id"] for panel in panels(name)}) == len(panels(name))
    taken: set[tuple[int, int]] = set()
    for panel in panels(name):
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
            assert panel["description"].endswith("."), panel["title"]
            assert panel["targets"] and all(each["legendFormat"] for each in panel["targets"]), panel["title"]
            assert panel["datasource"]["uid"] == "${datasource}"


def queries() -> Iterator[tuple[str, str]]:
    """Every query of a panel and every expression of an alert, with where it stands."""
    for name in files.DASHBOARDS:
        for panel in panels(name):
            for target in panel.get("targets", ()):
                yield f"{name}: {panel['title']}", target["expr"]
    for path in sorted((CHARTS / "fairlead" / "files" / "alerts").glob("*.yaml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                yield rule["alert"], rule["expr"]


@cache
def words(folder: str) -> frozenset[str]:
    """Every text in a room's source; metrics are written there with or without their prefix."""
    root = CHARTS.parent / folder
    return frozenset(
        node.value
        for path in root.rglob("*metrics.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ) | frozenset(
        node.value
        for path in root.rglob("*status.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def names_of(metric: str) -> set[str]:
    """How a room's source may call it: without what Prometheus appends."""
    bare = re.sub(r"_(total|bucket)$", "", metric)
    room = bare.split("_")[1]
    short = bare.removeprefix(f"fairlead_{room}_")
    return {metric, bare, short, f"{short}_total", re.sub(r"^queue_|_events$", "", short)}


@pytest.mark.parametrize(("place", "query"), [pytest.param(*each, id=each[0]) for each in queries()])
def test_each_metric_is_one_that_a_room_has(place: str, query: str) -> None:
    """By the texts of the room's source; the live Prometheus of test_queries_live.py is the stronger test."""
    found = set(re.findall(r"fairlead_(?:hub|edge|messaging|ingest)_\w+", query))
    assert found or "up{" in query, place
    for metric in found:
        assert names_of(metric) & words(ROOMS[metric.split("_")[1]]), f"{place}: {metric}"


def test_a_renamed_metric_is_noticed() -> None:
    """The rule sees what it forbids."""
    assert not names_of("fairlead_hub_objects_given_up") & words("operator")
    assert names_of("fairlead_edge_queue_expired_total") & words("edge_agent")


def test_the_page_of_the_dashboards_names_the_rule_files() -> None:
    """So that they are found without the operator."""
    text = Path(CHARTS.parent / "docs" / "howto" / "monitor.md").read_text()
    assert "charts/fairlead/files/alerts" in text and "charts/fairlead/files/dashboards" in text
