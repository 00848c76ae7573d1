"""The tables of docs/reference/chart.md, from the charts' values.yaml and values.schema.json.

    .venv/bin/python docs/reference/chart_tables.py

Each value is a row: its path, what it may be (from the schema), its default and the sentence above it in values.yaml
(`# -- …`, and the comment lines that follow). A value without a sentence is an error, so none is undocumented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHARTS = Path(__file__).resolve().parents[2] / "charts"
PAGE = Path(__file__).with_name("chart.md")
NAMES = ("fairlead", "fairlead-edge")
_KEY = re.compile(r"^( *)([A-Za-z]\w*):(.*)$")
_ROOMS = ("hub", "messaging", "ingest")


class Undocumented(ValueError):
    """A value that values.yaml says nothing about."""


def sentences(text: str) -> dict[str, str]:
    """The comment above each key of a values.yaml, by the key's path."""
    found: dict[str, str] = {}
    path: list[str] = []
    said: list[str] = []
    for line in text.splitlines():
        if (comment := line.strip()).startswith("#"):
            said = [comment.removeprefix("# -- ")] if comment.startswith("# -- ") else [*said, comment.lstrip("# ")]
        elif key := _KEY.match(line):
            path = [*path[: len(key[1]) // 2], key[2]]
            if said:
                found[".".join(path)] = " ".join(said)
            said = []
        else:
            said = []
    return found


def leaves(schema: Mapping[str, Any], values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Path, schema and default of each value that people set as one."""
    for key, default in values.items():
        each = schema["properties"][key]
        if each.get("properties") and key not in ("config", "resourceLimits"):
            yield from leaves(each, default, f"{path}{key}.")
        else:
            yield f"{path}{key}", each, default


def kind(key: str, schema: Mapping[str, Any]) -> str:
    """What it may be, in words."""
    if key == "config":
        return "settings"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    words = {"string": "text", "integer": "whole number", "array": "list", "object": "map", "boolean": "true, false"}
    if {"integer", "number"} <= set(kinds):
        kinds = [each for each in kinds if each != "integer"]
    return " or ".join(words.get(each, str(each)) for each in kinds)


def table(chart: str) -> str:
    """One row for each value.  Raises ``Undocumented``."""
    text = (CHARTS / chart / "values.yaml").read_text()
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
    said = sentences(text)
    rows = ["| value | may be | default | |", "| --- | --- | --- | --- |"]
    for path, each, default in leaves(schema, yaml.safe_load(text)):
        if not (words := said.get(path) or _elsewhere(path, said)):
            raise Undocumented(f"charts/{chart}/values.yaml: {path} needs a comment `# -- …` above it")
        shown = json.dumps(default, ensure_ascii=False)
        cells = (f"`{path}`", kind(path.rpartition(".")[2], each), f"`{shown}`", words.replace("<", "\\<"))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _elsewhere(path: str, said: Mapping[str, str]) -> str:
    """The rooms have many values in common; what one of them says counts for all."""
    room, _, rest = path.partition(".")
    return next((said[f"{other}.{rest}"] for other in _ROOMS if room in _ROOMS and f"{other}.{rest}" in said), "")


def page() -> str:
    """The whole page."""
    head = (
        "# Values of the charts\n\n"
        "Made from `values.yaml` and `values.schema.json` of both charts; Helm refuses what is not here. How to use\n"
        "them: [install](../howto/install.md), [upgrade](../howto/upgrade.md), [monitor](../howto/monitor.md).\n"
    )
    return head + "".join(f"\n## Chart {chart}\n\n{table(chart)}" for chart in NAMES)


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
