"""The status that programs reported of one object: who owns what of it, and how far it got.

    PATCH ─▶ waiting ─hub: the API server has it─▶ written
                ▲ └──hub: never──▶ refused (code, reason)
                └──── the next PATCH ────┘

There is one of it for each object and UID: what is newer replaces what still waits.  ``sequence`` rises with every
change, so that an answer about an older one settles nothing.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.statuses import ownership
from fairlead_edge.objects.statuses.ownership import CONFLICTS_TOLD_MAX, Share
from fairlead_edge.objects.statuses.patch import PatchRefused, StatusPatch
from fairlead_wire import message

MANAGERS_MAX: Final = 16
"""Programs that may own fields of one status."""

State = Literal["waiting", "written", "refused"]


class EdgeReportedStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """See the module.  ``at``: seconds of the store's clock."""

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
        """What all programs own, as JSON."""
        return msgspec.json.encode(ownership.union(self.shares), order="sorted")

    @property
    def described(self) -> str:
        """For people."""
        return f"refused: {self.code}: {self.reason}" if self.state == "refused" else self.state


def patched(
    held: HeldObject, kept: EdgeReportedStatus | None, patch: StatusPatch, *, sequence: int, now: float
) -> EdgeReportedStatus | None:
    """What is kept once the patch is made; None where it changes nothing.  Raises ``PatchRefused``."""
    known = kept if kept is not None and kept.uid == held.uid else None
    before = known.shares if known is not None else {}
    force: message.Force = ""
    if isinstance(patch.status, msgspec.UnsetType) and patch.operation == "Update":
        shares: dict[str, Share] = dict(before)
    elif patch.operation == "Update":
        asked = None if isinstance(patch.status, msgspec.UnsetType) else patch.status
        shares, force = ownership.merge(before, patch.manager, asked), "cluster"
    else:
        document = {} if isinstance(patch.status, msgspec.UnsetType) or patch.status is None else patch.status
        shares, conflicts = ownership.apply(before, patch.manager, document)
        if conflicts and not patch.force:
            raise _conflict(conflicts)
        force = "all" if patch.force else ""
    if len(shares) > MANAGERS_MAX:
        raise PatchRefused(422, f"{len(shares)} field managers own parts of this status, at most {MANAGERS_MAX} may")
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
        raise PatchRefused(413, f"a status of {size} bytes is over the limit of {message.STATUS_BYTES_MAX}")
    return found


def settled(kept: EdgeReportedStatus, sequence: int, *, code: str = "", reason: str = "") -> EdgeReportedStatus:
    """The hub answered about this sequence; a newer one goes on waiting.  A ``code``: never."""
    if kept.sequence != sequence:
        return kept
    state: State = "refused" if code else "written"
    return msgspec.structs.replace(kept, state=state, code=code, reason=reason)


def _same(first: EdgeReportedStatus, second: EdgeReportedStatus) -> bool:
    encode = msgspec.json.Encoder(order="sorted").encode
    return encode(first.shares) == encode(second.shares) and message.stronger(first.force, second.force) == first.force


def _conflict(conflicts: list[ownership.FieldConflict]) -> PatchRefused:
    told = conflicts[:CONFLICTS_TOLD_MAX]
    count = f"{len(conflicts)} conflict" + ("s" if len(conflicts) > 1 else "")
    named = ", ".join(f'"{each.manager}": {each.field}' for each in told)
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{each.manager}"', "field": each.field}
        for each in told
    ]
    return PatchRefused(
        409,
        f"Apply failed with {count} with {named}; leave these fields out, or take them over with force=true"
        " (kubectl: --force-conflicts)",
        details={"causes": causes},
    )
