"""The code blocks of README and docs, and how each is tested.

A comment in the line before a fence says how: `<!-- live expect=… -->`. Kinds:

    live            shell, run against the local stack; `expect=TEXT`: what it prints contains that
    python          run against the local stack, the blocks of a page as one program
    apply           YAML, tried on the real API server; `file=NAME`: its name on the page (examples/…: it is that file)
    manifest        YAML, checked by `fairlead routes check`
    settings ROOM   TOML, read by the room's own settings
    programs        shell that starts programs: their settings are read
    json WHAT       read by the decoder of WHAT; `file=NAME` as above
    table           Python, run beside a Delta table
    console         commands after "$ ", with what they print
    by FILE         tested by another test, or a tool that tests run
    needs WHAT      cannot run here
    shown           output or a diagram; not tested
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = frozenset(
    ["live", "python", "apply", "manifest", "settings", "programs", "json", "table", "console", "by", "needs", "shown"]
)
_NOTE = re.compile(r"<!-- (?P<kind>\w+)(?P<rest>.*?) -->")
_OPTION = re.compile(r" (expect|file)=(.+)$")


class Unannotated(ValueError):
    """A block without an annotation; the text names file and line."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """`what`: the words behind the kind; `line`: of the fence, from 1."""

    page: Path
    line: int
    language: str
    kind: str
    what: str
    expect: str
    file: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """README first, because readers of other pages have followed it."""
    order = ["docs", "tutorial", "howto", "reference", "runbooks", "explanation", "decisions"]
    docs = sorted((ROOT / "docs").rglob("*.md"), key=lambda page: (order.index(page.parent.name), page.name))
    routes = ROOT / "docs" / "howto" / "write-routes.md"
    return [ROOT / "README.md", routes, *(page for page in docs if page != routes)]


def blocks(page: Path, text: str) -> Iterator[Block]:
    """Every fenced block of a page.  Raises `Unannotated`."""
    lines = text.split("\n")
    start = -1
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start < 0:
            start = number
            continue
        yield _block(page, start, lines[start], lines[start - 1] if start else "", lines[start + 1 : number])
        start = -1
    if start >= 0:
        raise Unannotated(f"{page}:{start + 1}: the block is not closed")


def _block(page: Path, number: int, fence: str, above: str, inside: list[str]) -> Block:
    note = _NOTE.fullmatch(above)
    if note is None or note["kind"] not in KINDS:
        raise Unannotated(f"{page}:{number + 1}: say above the block what it is, as in {Path(__file__).name}")
    rest, options = note["rest"], {"expect": "", "file": ""}
    if found := _OPTION.search(rest):
        options[found[1]] = found[2]
        rest = rest[: found.start()]
    return Block(
        page=page, line=number + 1, language=fence.removeprefix("```"), kind=note["kind"], what=rest.strip(),
        text="\n".join(inside) + "\n", expect=options["expect"], file=options["file"],
    )  # fmt: skip
