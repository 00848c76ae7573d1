"""Revocation: ``EdgeNode.spec.revoked`` refuses every certificate of that name from before a moment.

``KnownIdentity`` is all that the hub knows of a name when a device asks for it, the moment of its revocation included.

    spec ─read─▶ Revoked ─covers(not before of a certificate)─▶ is it revoked?

One moment revokes all of them at once: the one in use, those before it, and copies that were never seen.  Certificates
issued later are not affected.  It applies to sessions, renewal and late renewal.  Times are RFC 3339 text in UTC, whole
seconds, so that they compare as text with the times of certificates.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_wire.identity import join_token

RFC_3339: Final = "%Y-%m-%dT%H:%M:%SZ"
FOR_EVER: Final = "9999-12-31T23:59:59Z"
REASON_CHARS_MAX: Final = 256
RETRY_SECONDS: Final = 600.0
"""When a revoked node may ask again: only a person can change the answer."""
REMEDY: Final = (
    "give it a new certificate: fairlead token create --node NODE --replace, then fairlead edge join on the device"
)
"""Also in the log of the agent that is refused."""
DELETED: Final = "node deleted"
"""The reason that ``fairlead node delete`` gives."""
_REPLACED: Final = "replaced by token "
_REPLACED_BY: Final = re.compile(rf"{_REPLACED}([{join_token.ALPHABET}]{{{join_token.ID_CHARS}}})(?![^\s;])")
MISTAKEN: Final = "if it was revoked by mistake: fairlead node unrevoke {node}, and restart the agent, or wait 10 min"


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """``before``: certificates with an earlier not-before are refused.  ``reason``: from the person; may be empty."""

    before: str
    reason: str = ""

    def covers(self, issued: str) -> bool:
        """``issued``: not before of a certificate, in the format of ``io.tls.peer_times``."""
        return issued < self.before

    @property
    def replaced_by(self) -> str:
        """The id of the token whose device replaced the one with these certificates; "" if it was not replaced."""
        found = _REPLACED_BY.match(self.reason)
        return found[1] if found else ""

    @property
    def moment(self) -> datetime.datetime:
        """For a signer: certificates it signs for this name must not begin earlier."""
        return datetime.datetime.strptime(self.before, RFC_3339).replace(tzinfo=datetime.UTC)

    def why(self, node: str) -> str:
        """The message for the node, for its EdgeNode and for events."""
        if advice := self._advice(node):
            # No hint at unrevoke: that would let the replaced device back in.
            return f"certificates of {node} from before {self.before} are revoked ({self.reason}); {advice}"
        mistaken = MISTAKEN.format(node=node)
        if self.before == FOR_EVER:
            return f"every certificate of {node} is revoked{self._reason_text}; {mistaken}"
        return f"certificates of {node} from before {self.before} are revoked{self._reason_text}; {REMEDY}; {mistaken}"

    def _advice(self, node: str) -> str:
        if self.reason.endswith(DELETED):
            create = f"fairlead token create --node {node} --create-node"
            return f"to use this device again: {create}, then fairlead edge join --force on the device"
        if self.replaced_by:
            return "to use this device again, join it with a token for another name"
        return ""

    @property
    def _reason_text(self) -> str:
        return f" ({self.reason})" if self.reason else ""


def replaced(token: str, reason: str = "") -> str:
    """The reason of a revocation because of a replacement; a later ``reason`` does not hide the replacement."""
    return f"{_REPLACED}{token}{f'; {reason}' if reason else ''}"[:REASON_CHARS_MAX]


def read(spec: Mapping[str, Any]) -> Revocation | None:
    """Read an EdgeNode's spec.  An unreadable value revokes everything: a mistake in a date must not admit anyone."""
    found = spec.get("revoked")
    if found is None:
        return None
    if not isinstance(found, Mapping):
        return Revocation(before=FOR_EVER, reason="spec.revoked cannot be read")
    reason = found.get("reason")
    said = " ".join(reason.split())[:REASON_CHARS_MAX] if isinstance(reason, str) else ""
    before = _seconds(found.get("before"))
    if before is None:
        return Revocation(before=FOR_EVER, reason="spec.revoked.before is not a time")
    return Revocation(before=before, reason=said)


def spec(revoked: Revocation) -> dict[str, Any]:
    """The value for an EdgeNode's spec."""
    return {"revoked": {"before": revoked.before, "reason": revoked.reason}}


def _seconds(text: object) -> str | None:
    """In UTC; a fraction counts as a whole second, because certificates begin at whole seconds."""
    try:
        moment = datetime.datetime.fromisoformat(str(text))
        if moment.tzinfo is None:
            return None
        moment = moment.astimezone(datetime.UTC)
        if moment.microsecond:
            moment = moment.replace(microsecond=0) + datetime.timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}".rjust(len(FOR_EVER), "0")


class KnownIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub knows of a name that a device requests.  Times are seconds since 1970; 0 and empty mean none."""

    unknown: str = ""
    """Why the name cannot be judged yet."""
    node_uid: str = ""
    """UID of the Node that has this name now."""
    bound_uid: str = ""
    """UID of the Node its newest certificate was used for."""
    issued: int = 0
    expires: int = 0
    revoked_before: int = 0
