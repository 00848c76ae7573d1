"""Lists what users can name, and compares it with an earlier commit.

    .venv/bin/python -m docs.reference.surface            # how many of each there are
    .venv/bin/python -m docs.reference.surface v1.0.0     # what came and what went since that tag or commit

Commands, options, endpoints, settings, metrics, events and fields of custom resources are read from the generated
pages of the reference, which a test holds against the programs.  So this needs neither a program nor a checkout of the
earlier commit.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ("hub", "edge", "messaging", "ingest")
OPENAPI = ("hub", "edge", "messaging")

Read = Callable[[str], str]
"""The text of a file in docs/reference."""


def surface(read: Read) -> dict[str, set[str]]:
    """Names by what they are of."""
    commands = read("cli-commands.md")
    return {
        "command": set(re.findall(r"^## (fairlead.*)$", commands, re.MULTILINE)),
        "option": set(_options(commands)),
        "endpoint": {f"{name}: {call}" for name in OPENAPI for call in _endpoints(read(f"{name}.openapi.json"))},
        "setting": {f"{name}: {key}" for name in SETTINGS for key in _settings(read(f"{name}.md"))},
        "metric": set(re.findall(r"^\| `(fairlead_\w+)`", read("metrics.md"), re.MULTILINE)),
        "event": set(re.findall(r"^\| `([a-z]+\.[a-z_.]+)` \|", read("events.md"), re.MULTILINE)),
        "field": set(_fields(read("crd-fields.md"))),
    }


def _options(text: str) -> Iterator[str]:
    command = ""
    for line in text.splitlines():
        if line.startswith("## "):
            command = line[3:]
        elif line.startswith("| `-"):
            for name in re.findall(r"`(--[a-z-]+)`", line.split(" | ")[0]):
                yield f"{command} {name}"


def _endpoints(text: str) -> Iterator[str]:
    for path, calls in json.loads(text)["paths"].items():
        for method in calls:
            if method in ("get", "put", "post", "patch", "delete", "head"):
                yield f"{method.upper()} {path}"


def _settings(text: str) -> Iterator[str]:
    # Between the marks of settings_tables.py.
    table = text.partition("<!-- settings: made")[2].partition("<!-- settings: end")[0]
    yield from re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def _fields(text: str) -> Iterator[str]:
    kind = ""
    for line in text.splitlines():
        if line.startswith("## "):
            kind = line[3:]
        elif field := re.match(r"\| `([a-zA-Z][^`]*)` \|", line):
            yield f"{kind} {field[1]}"


def at(commit: str) -> Read:
    """The pages as they were in this commit."""

    def read(name: str) -> str:
        shown = subprocess.run(
            ["git", "show", f"{commit}:docs/reference/{name}"], cwd=ROOT, capture_output=True, text=True
        )
        if shown.returncode != 0:
            sys.exit(f"surface: git cannot show docs/reference/{name} of {commit}: {shown.stderr.strip()}")
        return shown.stdout

    return read


def now(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text()


def compared(before: dict[str, set[str]], after: dict[str, set[str]]) -> str:
    """A table of counts, and a row for each name that came or went."""
    lines = ["| of | before | after | gone | new |", "| --- | --- | --- | --- | --- |"]
    names: list[str] = []
    for kind, new in after.items():
        old = before[kind]
        lines.append(f"| {kind} | {len(old)} | {len(new)} | {len(old - new)} | {len(new - old)} |")
        names += [f"| {kind} | `{each}` | gone |" for each in sorted(old - new)]
        names += [f"| {kind} | `{each}` | new |" for each in sorted(new - old)]
    if names:
        lines += ["", "| of | name | |", "| --- | --- | --- |", *names]
    return "\n".join(lines)


def main() -> None:
    after = surface(now)
    if len(sys.argv) > 1:
        print(compared(surface(at(sys.argv[1])), after))
    else:
        for kind, names in after.items():
            print(f"{len(names):5} {kind}s")


if __name__ == "__main__":
    main()
