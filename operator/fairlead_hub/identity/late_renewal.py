"""Decides whether a node whose certificate expired while it was away may have a new one.

    Claim (proven) and what is known (EdgeNode, revocations) ─judge─▶ None: issue; else too_late, revoked, held …

A key can be copied with its disk.  A copy lacks the newest certificate that was used, or a later one that was issued
and not used yet, or the number of the store's opening that the hub saw last.  If one of these differs, a person
decides; the approval applies to one claim and one state, and becomes invalid if either changes.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec

from fairlead_wire.objects import api_group

DAY_SECONDS: Final = 86_400.0
HELD_RETRY_SECONDS: Final = 60.0
"""A person may approve it meanwhile."""
REFUSED_RETRY_SECONDS: Final = 600.0
"""Only another certificate or another setting helps."""
Code = Literal["starting", "late_off", "node_unknown", "revoked", "too_late", "not_newest", "held"]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a device has proven: this certificate was valid when it expired, and the device has its key.  Unix times."""

    node: str
    serial: str
    not_before: float
    not_after: float
    store_epoch: int
    """Of its last session, according to the device."""


class KnownNode(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub remembers of the node, from its EdgeNode."""

    exists: bool
    """Whether there is an edge Node of this name."""
    connected: bool = False
    """Whether it has an open session."""
    recreated: bool = False
    """Whether the Node was deleted and recreated since its certificates were used."""
    given_to: str = ""
    """Another key that got a certificate for this claim and has not used it yet."""
    newest_issued: float | None = None
    """When the newest certificate that it used was issued; None if none is remembered."""
    store_epoch: int = 0
    """Of its last session; 0 if none is remembered."""
    revoked: str = ""
    """Why this certificate is revoked; empty if it is not."""
    approved: str = ""
    """The value that a person approved."""


class RenewalRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """``held``: the value to approve; empty if approval does not help.  ``retry_after`` in seconds."""

    code: Code
    reason: str
    retry_after: float
    held: str = ""


def judge(claim: Claim, known: KnownNode, *, now: float, late_days: int) -> RenewalRefusal | None:
    """Decide on late renewal; None: issue a new certificate."""
    if not late_days:
        reason = "late renewal is off here ([identity] late_days = 0): join again with a token"
        return RenewalRefusal(code="late_off", reason=reason, retry_after=REFUSED_RETRY_SECONDS)
    if not known.exists:
        reason = api_group.no_edge_node(claim.node)
        return RenewalRefusal(code="node_unknown", reason=reason, retry_after=HELD_RETRY_SECONDS)
    if known.revoked:
        return RenewalRefusal(code="revoked", reason=known.revoked, retry_after=REFUSED_RETRY_SECONDS)
    if now > claim.not_after + late_days * DAY_SECONDS:
        days = (now - claim.not_after) / DAY_SECONDS
        reason = f"the certificate ended {days:.0f} days ago, at most {late_days} are allowed: join again with a token"
        return RenewalRefusal(code="too_late", reason=reason, retry_after=REFUSED_RETRY_SECONDS)
    return _doubt(claim, known)


def _doubt(claim: Claim, known: KnownNode) -> RenewalRefusal | None:
    """A possible copy waits for a person."""
    code: Code = "held"
    if known.connected:
        doubt = "a machine with this identity is connected now"
    elif known.given_to:
        doubt = "another machine with the same disk has just got a certificate"
    elif known.recreated:
        doubt = "the Node was deleted and recreated since"
    elif known.newest_issued is None:
        doubt = "no certificate of this node is remembered"
    elif int(claim.not_before) < int(known.newest_issued):
        code, doubt = "not_newest", "another certificate of this node was used after this one was issued"
    elif not known.store_epoch or claim.store_epoch != known.store_epoch:
        doubt = "its store does not match its last session (a copied disk, or an old backup)"
    else:
        return None
    held = value(claim, known)
    if known.approved == held:
        return None
    reason = f"{doubt}: inspect the device, then: fairlead node approve {claim.node} (or join again with a token)"
    return RenewalRefusal(code=code, reason=reason, retry_after=HELD_RETRY_SECONDS, held=held)


def value(claim: Claim, known: KnownNode) -> str:
    """What a person approves: this claim, until a newer certificate is used, and for one machine."""
    facts = (claim.node, claim.serial, claim.store_epoch, known.newest_issued, known.store_epoch, known.recreated)
    # Otherwise the approval of the first machine would admit every copy of its disk.
    other = known.given_to and f"after {known.given_to}"
    return "late-" + hashlib.sha256(f"{facts!r}{other}".encode()).hexdigest()[:20]
