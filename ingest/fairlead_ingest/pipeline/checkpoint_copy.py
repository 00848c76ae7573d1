"""Which files of a checkpoint are copied to an object store, and the page that names them there.

    small files (Spark's log of batches, the query's id)    their text is in the page itself
    state (the memory of ``dedupe_seconds``)                in archives, each with the files that were new at a batch

A start needs less than Spark keeps: the newest few batches, and of the state the last snapshot before the batch with
the changes since.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from fairlead_ingest import errors

PAGE: Final = "checkpoint.json"
STATE: Final = "state"
FORMAT: Final = 1
BATCHES_KEPT: Final = 3
BEFORE_KEPT: Final = 8
_STATE_FILE = re.compile(r"(\d+)\.(delta|snapshot)")
_OURS: Final = "fairlead-"


class CheckpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """One copy: ``texts`` of files by path, and ``archives`` with the paths to take from each."""

    format: int = FORMAT
    batch: int
    texts: dict[str, str]
    archives: dict[str, list[str]] = {}
    before: list[str] = []
    """The ``metadata`` of queries whose copies this one has replaced (as of another machine), newest first."""


def encode(page: CheckpointPage) -> bytes:
    return msgspec.json.encode(page)


def decode(content: bytes, where: object) -> CheckpointPage:
    """Parse a page. Raises ``Stop`` if it is invalid or has another format."""
    try:
        page = msgspec.json.decode(content, type=CheckpointPage)
        paths = [*page.texts, *(path for some in page.archives.values() for path in some), *page.archives]
    except msgspec.DecodeError as error:
        raise errors.Stop(errors.BAD_CHECKPOINT, f"{where}: not a copy of a checkpoint: {error}") from None
    if page.format != FORMAT:
        raise errors.Stop(errors.BAD_CHECKPOINT, f"{where}: the copy has another format ({page.format})")
    if bad := next((path for path in paths if path.startswith("/") or ".." in path.split("/")), None):
        raise errors.Stop(errors.BAD_CHECKPOINT, f"{where}: not a copy of a checkpoint: it has the path {bad!r}")
    return page


def replaced(page: CheckpointPage | None) -> list[str]:
    """The value of ``before`` for a copy that replaces ``page``."""
    if page is None:
        return []
    return list(dict.fromkeys([page.texts.get("metadata", ""), *page.before]))[:BEFORE_KEPT]


def needed(paths: Iterable[str], batch: int) -> tuple[list[str], list[str]]:
    """The paths (texts, state) in a checkpoint's folder that a start at ``batch`` needs."""
    texts: dict[str, list[str]] = {}
    state: dict[str, list[str]] = {}
    for path in sorted(paths):
        folder, _, name = path.rpartition("/")
        if name.startswith(".") or path.startswith(_OURS):
            continue
        (state if path.startswith(f"{STATE}/") else texts).setdefault(folder, []).append(name)
    return (
        [f"{folder}/{name}".lstrip("/") for folder, names in texts.items() for name in _newest(folder, names)],
        [f"{folder}/{name}" for folder, names in state.items() for name in _from_last_whole(names, batch)],
    )


def _newest(folder: str, names: list[str]) -> list[str]:
    if folder not in ("offsets", "commits"):
        return names
    return sorted((name for name in names if name.isdigit()), key=int)[-BATCHES_KEPT:]


def _from_last_whole(names: list[str], batch: int) -> list[str]:
    """The last snapshot up to ``batch`` and everything after it, with files of unknown kinds."""
    numbers = {name: int(found[1]) for name in names if (found := _STATE_FILE.fullmatch(name))}
    whole = [number for name, number in numbers.items() if name.endswith(".snapshot") and number <= batch]
    return [name for name in names if numbers.get(name, batch) >= max(whole, default=0)]


def grouped(archive_of: Mapping[str, str], paths: Collection[str]) -> dict[str, list[str]]:
    """Group ``paths`` by their archive."""
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        found.setdefault(archive_of[path], []).append(path)
    return found
