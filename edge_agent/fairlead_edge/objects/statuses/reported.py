"""The status that programs reported of one object: which program owns which field, and how far the report got.

    PATCH ─▶ waiting ─hub: the API server has it─▶ written
                ▲ └──hub: permanently──▶ refused (code, reason)
                └──── the next PATCH ────┘

There is one status for each object and UID; a newer one replaces one that is still waiting.  ``sequence`` rises with
every change, so that an answer for an older one is ignored.

Programs own fields.  A field is every value except a non-empty JSON object; a list is a single field:

    apply(program, document)   replaces everything that this program applied before; a field that another program owns
                               with another value is a conflict, unless forced
    merge(program, patch)      JSON merge patch (RFC 7386): the program owns all fields of the patch; null removes one
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.statuses.patch import PatchRefused, StatusPatch
from fairlead_wire import message

Document = dict[str, Any]
Path = tuple[str, ...]
CONFLICTS_SHOWN_MAX: Final = 10


class Share(msgspec.Struct, frozen=True):
    """The part of a status that one program owns."""

    operation: Literal["Apply", "Update"]
    document: Document


Shares = Mapping[str, Share]
"""Shares by field manager."""


class FieldConflict(msgspec.Struct, frozen=True):
    """Another program owns this field with another value."""

    manager: str
    path: Path

    @property
    def field(self) -> str:
        return ".".join(("", "status", *self.path))


def apply(shares: Shares, manager: str, document: Document) -> tuple[dict[str, Share], list[FieldConflict]]:
    """The shares after a forced apply, and the conflicts; the shares are valid without force if there are none."""
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
    """The shares after a JSON merge patch; ``patch`` None removes everything."""
    if patch is None:
        return {}
    after = {name: Share(share.operation, copy.deepcopy(share.document)) for name, share in shares.items()}
    # Fields that it applied before stay in its share, so that a program has only one.
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
    """The status that all shares form together."""
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
    elif not _equal(theirs, ours):
        yield path


def _equal(first: Any, second: Any) -> bool:
    """Equality of JSON values; in Python 1 equals both True and 1.0."""
    return msgspec.json.encode(first, order="sorted") == msgspec.json.encode(second, order="sorted")


def _changes(patch: Document, path: Path) -> Iterator[tuple[Path, Any]]:
    """The fields of a patch, in order; an empty object does not change an existing object."""
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
    """Remove a field, or the field that is in the place of one of its parent objects."""
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


MANAGERS_MAX: Final = 16
"""How many programs may own fields of one status."""

State = Literal["waiting", "written", "refused"]


class EdgeReportedStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reported status of one object.  ``at``: seconds of the store's clock."""

    uid: str
    sequence: int
    state: State
    at: float
    shares: dict[str, Share]
    force: message.Force = ""
    code: str = ""
    reason: str = ""

    @property
    def status(self) -> bytes:
        """The status of all programs, as JSON."""
        return msgspec.json.encode(union(self.shares), order="sorted")

    @property
    def described(self) -> str:
        """The state for people."""
        return f"refused: {self.code}: {self.reason}" if self.state == "refused" else self.state


def patched(
    held: HeldObject, kept: EdgeReportedStatus | None, patch: StatusPatch, *, sequence: int, now: float
) -> EdgeReportedStatus | None:
    """The status after the patch; None if nothing changes.  Raises ``PatchRefused``."""
    known = kept if kept is not None and kept.uid == held.uid else None
    before = known.shares if known is not None else {}
    force: message.Force = ""
    if isinstance(patch.status, msgspec.UnsetType) and patch.operation == "Update":
        shares: dict[str, Share] = dict(before)
    elif patch.operation == "Update":
        asked = None if isinstance(patch.status, msgspec.UnsetType) else patch.status
        shares, force = merge(before, patch.manager, asked), "cluster"
    else:
        document = {} if isinstance(patch.status, msgspec.UnsetType) or patch.status is None else patch.status
        shares, conflicts = apply(before, patch.manager, document)
        if conflicts and not patch.force:
            raise _conflict(conflicts)
        force = "all" if patch.force else ""
    if len(shares) > MANAGERS_MAX:
        raise PatchRefused(422, f"{len(shares)} field managers own parts of this status; at most {MANAGERS_MAX} may")
    waits = known is not None and known.state == "waiting"
    found = EdgeReportedStatus(
        uid=held.uid,
        sequence=sequence,
        state="waiting",
        at=now,
        shares=shares,
        force=message.stronger(force, known.force) if known is not None and waits else force,
    )
    if known is None and not shares:
        return None
    if known is not None and known.state != "refused" and _same(known, found):
        return None
    if (size := len(found.status)) > message.STATUS_BYTES_MAX:
        raise PatchRefused(413, f"a status of {size} bytes exceeds the limit of {message.STATUS_BYTES_MAX}")
    return found


def settled(kept: EdgeReportedStatus, sequence: int, *, code: str = "", reason: str = "") -> EdgeReportedStatus:
    """The hub answered for this sequence; a newer one keeps waiting.  ``code``: it was permanently refused."""
    if kept.sequence != sequence:
        return kept
    state: State = "refused" if code else "written"
    return msgspec.structs.replace(kept, state=state, code=code, reason=reason)


def _same(first: EdgeReportedStatus, second: EdgeReportedStatus) -> bool:
    encode = msgspec.json.Encoder(order="sorted").encode
    return encode(first.shares) == encode(second.shares) and message.stronger(first.force, second.force) == first.force


def _conflict(conflicts: list[FieldConflict]) -> PatchRefused:
    shown = conflicts[:CONFLICTS_SHOWN_MAX]
    count = f"{len(conflicts)} conflict" + ("s" if len(conflicts) > 1 else "")
    named = ", ".join(f'"{each.manager}": {each.field}' for each in shown)
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{each.manager}"', "field": each.field}
        for each in shown
    ]
    return PatchRefused(
        409,
        f"Apply failed with {count} with {named}; omit these fields, or take them over with force=true"
        " (kubectl: --force-conflicts)",
        details={"causes": causes},
    )
