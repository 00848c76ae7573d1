"""Which program set which field of a status: what each applied or patched, merged into one document.

    apply(program, document)   replaces all that this program applied before; fields of others with another value are a
                               conflict, unless it is forced
    merge(program, patch)      JSON merge patch (RFC 7386): what it names is this program's from then on; null removes

A field is anything but a JSON object that is not empty; a list is one field.  Documents that are handed in are never
changed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

Document = dict[str, Any]
Path = tuple[str, ...]
CONFLICTS_TOLD_MAX: Final = 10


class Share(msgspec.Struct, frozen=True):
    """What one program owns of a status."""

    operation: Literal["Apply", "Update"]
    document: Document


Shares = Mapping[str, Share]
"""By field manager."""


class FieldConflict(msgspec.Struct, frozen=True):
    """Another program owns this field, with another value."""

    manager: str
    path: Path

    @property
    def field(self) -> str:
        return ".".join(("", "status", *self.path))


def apply(shares: Shares, manager: str, document: Document) -> tuple[dict[str, Share], list[FieldConflict]]:
    """The shares as they are once it is forced, and whose fields that takes; no conflicts: take the shares."""
    wanted = _without_nulls(document)
    after = {name: Share(share.operation, copy.deepcopy(share.document)) for name, share in shares.items()}
    conflicts = [
        FieldConflict(other, path)
        for other, share in shares.items()
        if other != manager
        for path in _conflicts(share.document, wanted, ())
    ]
    for each in conflicts:
        _remove(after[each.manager].document, each.path)
    after[manager] = Share("Apply", wanted)
    return _kept(after), conflicts


def merge(shares: Shares, manager: str, patch: Document | None) -> dict[str, Share]:
    """``patch`` None removes all."""
    if patch is None:
        return {}
    after = {name: Share(share.operation, copy.deepcopy(share.document)) for name, share in shares.items()}
    # What it applied before stays among its own: a program that patches has no use for two shares.
    own = after[manager] = Share("Update", after[manager].document if manager in after else {})
    for path, value in _changes(patch, ()):
        is_empty_object = isinstance(value, dict)
        for share in after.values():
            if not (is_empty_object and _is_object(share.document, path)):
                _remove(share.document, path)
        if value is not None and not (is_empty_object and any(_is_object(s.document, path) for s in after.values())):
            _set(own.document, path, value)
    return _kept(after)


def union(shares: Shares) -> Document:
    """The status that all of them make."""
    found: Document = {}
    for share in shares.values():
        found = _merged(found, share.document)
    return found


def _kept(shares: Mapping[str, Share]) -> dict[str, Share]:
    return {name: share for name, share in shares.items() if share.document}


def _without_nulls(document: Document) -> Document:
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in document.items()
        if value is not None
    }


def _conflicts(theirs: Any, ours: Any, path: Path) -> Iterator[Path]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs.keys() & ours.keys():
            yield from _conflicts(theirs[key], ours[key], (*path, key))
    elif not _same(theirs, ours):
        yield path


def _same(first: Any, second: Any) -> bool:
    """1 and true are equal in Python, and so are 1 and 1.0."""
    return msgspec.json.encode(first, order="sorted") == msgspec.json.encode(second, order="sorted")


def _changes(patch: Document, path: Path) -> Iterator[tuple[Path, Any]]:
    """Fields in the order they are written; an object that is empty changes nothing that is one already."""
    for key, value in patch.items():
        if isinstance(value, dict) and value:
            yield from _changes(value, (*path, key))
        else:
            yield (*path, key), value


def _is_object(document: Document, path: Path) -> bool:
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return isinstance(found, dict)


def _remove(document: Document, path: Path) -> None:
    """Take the field out, and a field that stands where one of the path's objects should be."""
    inner = document
    for key in path[:-1]:
        found = inner.get(key)
        if not isinstance(found, dict):
            inner.pop(key, None)
            return
        inner = found
    inner.pop(path[-1], None)


def _set(document: Document, path: Path, value: Any) -> None:
    inner = document
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = value


def _merged(first: Document, second: Document) -> Document:
    found = dict(first)
    for key, value in second.items():
        known = found.get(key)
        found[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return found
