"""Decides whether a device may have a certificate for a join token.  Values in, values out.

    token known, secret right ▸ name covered ▸ request (csr) ▸ same again? ▸ time ▸ uses ▸ key ▸ name taken
                                                                 └─ the very same certificate
    ─▶ Admitted (the use to record, what to revoke first), or IdentityRefused by code

An unknown token and a wrong secret get the same answer, so that ids cannot be collected.  Nothing else is checked
before the secret is correct.  A refusal does not consume a use of the token.

Attempts are limited (``JoinLimits``): so many a second for this hub, and a token is locked after ``FAILURES_MAX`` wrong
secrets.  130 random bits cannot be guessed; the limits keep a guesser from loading the hub and show up in metrics and
log.  Attempts with the id of an existing token are counted separately, so that invented ids do not keep devices out.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from fairlead_hub.identity import signer
from fairlead_hub.identity.join_tokens import JoinTokenObject, Use
from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.revocation import KnownIdentity
from fairlead_hub.identity.signer import Authority, CheckedRequest, serial_text
from fairlead_hub.token_bucket import TokenBucket
from fairlead_hub.wall_clock import WallClock
from fairlead_wire.identity import join_token, node_names

REPEAT_SECONDS: Final = 600
"""For how long the same request with the same token gets the same certificate again: its answer may have been lost."""
STARTING_RETRY_SECONDS: Final = 2.0

_NO_HASH: Final = "0" * 64


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """Record ``use`` unless it ``is_repeat``; revoke certificates older than ``revoke_before`` (0: none); sign."""

    token: JoinTokenObject
    use: Use
    is_repeat: bool
    revoke_before: int


def check_secret(token: JoinTokenObject | None, secret: str) -> bool:
    """Constant time: the same for right, wrong and unknown tokens."""
    expected = token.secret_sha256 if token is not None else _NO_HASH
    is_same = hmac.compare_digest(join_token.hash_of(secret).encode(), expected.encode())
    return is_same and token is not None


def node_of(token: JoinTokenObject, asked: str) -> str:
    """The name that is admitted.  Raises ``IdentityRefused``."""
    if not asked and not token.node:
        raise IdentityRefused(
            "token_node", f"the token admits nodes whose names match {token.pattern}: say which (--node NAME)"
        )
    node = asked or token.node
    if not node_names.is_node_name(node):
        raise IdentityRefused("token_node", f"the name is not valid for a Node: {node_names.ALLOWED}")
    if not token.covers(node):
        raise IdentityRefused(
            "token_node", f"the token does not admit {node}: create one for it with fairlead token create"
        )
    return node


def judge(
    token: JoinTokenObject,
    node: str,
    request: CheckedRequest,
    *,
    known: KnownIdentity,
    uses: Sequence[Use],
    key_owner: str,
    now: float,
    days: float,
    authority: Authority,
    serial: Callable[[], int],
) -> Admitted:
    """``uses``: admissions of this name by any token; ``key_owner``: another node with this key; ``now``: Unix time.

    Raises ``IdentityRefused``, ``SignerUnavailable``.
    """
    if known.unknown:
        raise IdentityRefused("starting", known.unknown, retry_after=STARTING_RETRY_SECONDS)
    repeated = token.use_of(node, request.key_sha256)
    if repeated is not None and now - repeated.time < REPEAT_SECONDS:
        return _again(token, repeated, known)
    if now >= token.expires:
        ended, here = WallClock.shown(token.expires), WallClock.shown(int(now))
        reason = f"the token expired on {ended}, and it is {here} here"
        raise IdentityRefused("token_expired", f"{reason}: create a new one with fairlead token create")
    if len(token.uses) >= token.uses_max:
        raise IdentityRefused("token_used", f"{_used(token)}: create a new one with fairlead token create")
    if key_owner:
        reason = "the key belongs to another node: generate one on each device, and never copy a disk with a key on it"
        raise IdentityRefused("csr_key_reused", reason)
    if known.revoked_before > now:
        reason = f"every certificate of {node} is revoked until {WallClock.shown(known.revoked_before)}"
        raise IdentityRefused("revoked", f"{reason}: remove spec.revoked from its EdgeNode, or set its before")
    if token.pattern and known.revoked_before:
        # A stolen device may still have a token with a pattern on its disk.
        when = WallClock.shown(known.revoked_before)
        reason = f"{node} was revoked at {when}, and a token for a pattern does not admit it"
        raise IdentityRefused(
            "name_taken", f"{reason}; create one for its name with fairlead token create --node {node}"
        )
    if not token.replace and (why := _living(known, uses, now)):
        remedy = f"fairlead token create --node {node} --replace creates a token that revokes it"
        raise IdentityRefused("name_taken", f"{node} has an identity already ({why}); {remedy}")
    return _admit(token, node, request, known, uses, now, days, authority, serial)


def _again(token: JoinTokenObject, use: Use, known: KnownIdentity) -> Admitted:
    if known.revoked_before > use.not_before:
        raise IdentityRefused("revoked", f"{use.node} was revoked after it had joined: create a new token for it")
    revoke_before = use.not_before if token.replace and known.revoked_before < use.not_before else 0
    return Admitted(token=token, use=use, is_repeat=True, revoke_before=revoke_before)


def _used(token: JoinTokenObject) -> str:
    if token.uses_max > 1:
        return f"the token has already admitted {token.uses_max} nodes, its limit"
    return f"the token was used on {WallClock.utc(token.uses[0].time):%Y-%m-%d %H:%M UTC}"


def _living(known: KnownIdentity, uses: Sequence[Use], now: float) -> str:
    """Why the name is taken; empty if it is free.  An identity ends by expiry, by revocation, and with its Node."""
    is_bound = known.bound_uid and known.bound_uid == known.node_uid
    if is_bound and known.expires > now and known.issued >= known.revoked_before:
        return f"in use, valid until {WallClock.shown(known.expires)}"
    for use in uses:
        # What was used since is counted above.  Certificates that were issued and never used are known only from the
        # record.
        is_seen = known.bound_uid and use.not_before <= known.issued
        is_of_this_node = not use.node_uid or use.node_uid == known.node_uid
        if not is_seen and is_of_this_node and use.not_after > now and use.not_before >= known.revoked_before:
            return f"joined {WallClock.shown(use.time)}"
    return ""


def _admit(
    token: JoinTokenObject,
    node: str,
    request: CheckedRequest,
    known: KnownIdentity,
    uses: Sequence[Use],
    now: float,
    days: float,
    authority: Authority,
    serial: Callable[[], int],
) -> Admitted:
    revoke_before = 0
    if token.replace:
        # Later than what others issued, or will issue, in this same second, including attempts that stopped half-way.
        given = [known.revoked_before, *(use.not_before for use in uses)]
        revoke_before = max(int(now), *(each + 1 for each in given))
    since = revoke_before or known.revoked_before
    not_before, not_after = signer.validity(
        WallClock.utc(int(now)), days=days, authority=authority, revoked_before=WallClock.utc(since) if since else None
    )
    use = Use(
        node=node,
        key_sha256=request.key_sha256,
        serial=serial_text(serial()),
        time=int(now),
        not_before=int(not_before.timestamp()),
        not_after=int(not_after.timestamp()),
        node_uid=known.node_uid,
    )
    return Admitted(token=token, use=use, is_repeat=False, revoke_before=revoke_before)


ATTEMPTS_PER_SECOND: Final = 10.0
ATTEMPTS_AT_ONCE: Final = 20
FAILURES_MAX: Final = 20
LOCKED_SECONDS: Final = 600.0
COUNTED_MAX: Final = 10_000
"""Tokens with recorded failures; the oldest is forgotten first."""


class JoinLimits:
    """``now`` is always seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._known, self._unknown = (TokenBucket(ATTEMPTS_PER_SECOND, ATTEMPTS_AT_ONCE) for _ in range(2))
        self._failures: OrderedDict[str, int] = OrderedDict()
        self._locked: OrderedDict[str, float] = OrderedDict()
        """Id → locked until."""

    def take(self, now: float, *, is_known: bool) -> float:
        """0 if this attempt may be judged; otherwise the seconds after which another may be.

        ``is_known``: whether there is a token with this id.
        """
        bucket = self._known if is_known else self._unknown
        if bucket.has_one(now):
            bucket.take(now)
            return 0.0
        return bucket.next_at(now) - now

    def locked(self, id: str, now: float) -> float:
        """For how long this token is still locked; 0 if it is not."""
        until = self._locked.get(id, now)
        if until <= now:
            self._locked.pop(id, None)
        return max(0.0, until - now)

    def failed(self, id: str, now: float) -> bool:
        """A wrong secret for an existing token.  Returns True if the token is locked now."""
        self._failures[id] = self._failures.pop(id, 0) + 1
        if self._failures[id] >= FAILURES_MAX:
            del self._failures[id]
            self._locked[id] = now + LOCKED_SECONDS
            _forget_oldest(self._locked)
            return True
        _forget_oldest(self._failures)
        return False

    def passed(self, id: str) -> None:
        """The secret was right."""
        self._failures.pop(id, None)


def _forget_oldest(table: OrderedDict[str, int] | OrderedDict[str, float]) -> None:
    while len(table) > COUNTED_MAX:
        table.popitem(last=False)
