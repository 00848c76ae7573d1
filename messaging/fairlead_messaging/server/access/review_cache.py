"""What the API server said of tokens: for a minute, and while it is away for ten.  Never the tokens themselves.

A digest is kept in place of a token, so neither memory dumps nor comparisons give one away.  Times are seconds of any
steady clock, except ``ends``: when the token itself ends, a Unix time.
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from typing import Final

import msgspec

from fairlead_messaging.server.access.subject import Subject

FRESH_SECONDS: Final = 60.0
AWAY_SECONDS: Final = 600.0
REFUSED_SECONDS: Final = 10.0
"""A token that is not valid is not asked about again for so long: it may become so, where clocks differ."""
REVIEWS_MAX: Final = 4096
TOKEN_CHARS_MAX: Final = 8192
"""Kubernetes makes tokens of some 1,000 characters."""


class Review(msgspec.Struct, frozen=True):
    """``account`` None: not valid for us."""

    account: Subject | None
    at: float
    ends: float

    def holds(self, now: float, wall: float, *, away: bool) -> bool:
        if self.account is None:
            return now - self.at < REFUSED_SECONDS
        return now - self.at < (AWAY_SECONDS if away else FRESH_SECONDS) and wall < self.ends


class ReviewCache:
    """By digest; of more than ``reviews_max`` the one that was asked for longest ago goes, refused ones first."""

    def __init__(self, reviews_max: int = REVIEWS_MAX) -> None:
        self._max = reviews_max
        self._good: OrderedDict[bytes, Review] = OrderedDict()
        self._refused: OrderedDict[bytes, Review] = OrderedDict()

    def __len__(self) -> int:
        return len(self._good) + len(self._refused)

    def get(self, key: bytes, now: float, wall: float, *, away: bool = False) -> Review | None:
        """What still holds.  ``away``: the API server does not answer, so an older answer counts."""
        for table in (self._good, self._refused):
            found = table.get(key)
            if found is not None and found.holds(now, wall, away=away):
                table.move_to_end(key)
                return found
        return None

    def put(self, key: bytes, review: Review) -> None:
        """A flood of tokens that are not valid pushes out no valid one."""
        self._good.pop(key, None)
        self._refused.pop(key, None)
        table = self._good if review.account is not None else self._refused
        table[key] = review
        if len(table) > self._max:
            table.popitem(last=False)


def digest(token: str) -> bytes:
    """What a token is kept by."""
    return hashlib.sha256(token.encode()).digest()


def looks_like_one(token: str) -> bool:
    """Whether it is worth asking about: three parts of base64url, as every ServiceAccount's token has."""
    parts = token.split(".")
    return len(token) <= TOKEN_CHARS_MAX and len(parts) == 3 and all(map(_is_base64url, parts))


def ends(token: str) -> float:
    """When it says that it ends (a Unix time), to be asked of one that was found valid; infinity: it does not say."""
    payload = token.split(".")[1]
    try:
        said = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims).exp
    except (ValueError, RecursionError):
        return float("inf")
    return float(said) if said is not None else float("inf")


class _Claims(msgspec.Struct):
    exp: float | None = None


def _is_base64url(text: str) -> bool:
    return bool(text) and text.isascii() and text.replace("-", "").replace("_", "").isalnum()
