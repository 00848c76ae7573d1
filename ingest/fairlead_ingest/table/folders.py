"""Which folders a job's pipelines use, and that none lies in the way of another.

A pipeline has five: rows, dead letters, gaps, repairs and the checkpoint; six where it keeps a latest table. One in
another would be read as part of a table, or taken away with it by a vacuum; the same twice would be two tables in one
place.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable

from fairlead_wire.validation.mistakes import wrong

DEAD_LETTERS = "_dead_letters"
GAPS = "_gaps"
LATEST = "_latest"
REPAIRS = "_repairs"


def check(pipelines: Iterable[tuple[str, str, str]], with_latest: Collection[str] = ()) -> None:
    """Raises ``mistakes.Wrong`` naming the key; a pipeline is its name, table and checkpoint; ``with_latest`` names
    those that keep a latest table."""
    used: list[tuple[tuple[str, ...], str, str]] = []
    for name, table, checkpoint in pipelines:
        for suffix, what in (("", "rows"), (DEAD_LETTERS, "dead letters"), (GAPS, "gaps"), (REPAIRS, "repairs")):
            used.append((_parts(table.rstrip("/") + suffix), "table", f"the {what} of {name}"))
        if name in with_latest:
            used.append((_parts(table.rstrip("/") + LATEST), "table", f"the latest table of {name}"))
        used.append((_parts(checkpoint), "checkpoint", f"the checkpoint of {name}"))
    # Sorted, a folder stands right before what lies in it.
    outer: list[tuple[tuple[str, ...], str, str]] = []
    for folder in sorted(used, key=lambda each: each[0]):
        while outer and folder[0][: len(outer[-1][0])] != outer[-1][0]:
            outer.pop()
        if outer:
            _refuse(outer[-1], folder)
        outer.append(folder)


def _refuse(outer: tuple[tuple[str, ...], str, str], inner: tuple[tuple[str, ...], str, str]) -> None:
    keys = {outer[1], inner[1]}
    key = "checkpoint" if "checkpoint" in keys else "table"
    path = "/".join(inner[0]).replace(":/", "://", 1) or "/"
    if outer[0] == inner[0]:
        raise wrong(key, f"{path} would be {outer[2]} and {inner[2]}; give each a folder of its own")
    if outer[1] == "table" and inner[0][len(outer[0])][:1] in ("_", "."):
        return  # hidden from readers and from vacuum
    raise wrong(key, f"{path}, {inner[2]}, lies in {outer[2]}; put it beside, not inside")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(posixpath.normpath(path).split("/"))
