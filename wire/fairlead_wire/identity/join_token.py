"""Join tokens: the text pasted on a device, with the token's id, its secret and the authorities to trust.

    fl1-<id>-<secret>-<pin>[.<pin>…]

``id`` is the name of the JoinToken.  ``secret`` has 130 random bits; the cluster keeps only its hash.  A ``pin`` is the
SHA-256 of the public key (SubjectPublicKeyInfo, DER) of an authority of the hub's certificate, so that the device sends
the secret to no other server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

ALPN: Final = "fairlead-join/1"
"""Offered in the TLS handshake by a device without a certificate; only the join protocol may then be spoken."""
PREFIX: Final = "fl1"
ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
"""Five bits per letter; no two letters look alike."""
ID_CHARS: Final = 10
SECRET_CHARS: Final = 26
PINS_MAX: Final = 4
TEXT_CHARS_MAX: Final = len(PREFIX) + ID_CHARS + SECRET_CHARS + 3 + 65 * PINS_MAX

_ID = rf"[a-z2-7]{{{ID_CHARS}}}"
_PIN = r"[0-9a-f]{64}"
_TEXT = re.compile(rf"{PREFIX}-({_ID})-([a-z2-7]{{{SECRET_CHARS}}})-({_PIN}(?:\.{_PIN}){{0,{PINS_MAX - 1}}})")


class JoinToken(msgspec.Struct, frozen=True, kw_only=True):
    """``str()`` hides the secret, for logs; ``text`` is the whole token."""

    id: str
    secret: str
    pins: tuple[str, ...]

    def __str__(self) -> str:
        return f"{PREFIX}-{self.id}-…"

    __repr__ = __str__

    @property
    def text(self) -> str:
        return f"{PREFIX}-{self.id}-{self.secret}-{'.'.join(self.pins)}"


def make(random_bytes: Callable[[int], bytes], pins: Sequence[str]) -> JoinToken:
    """Make a new token.  ``random_bytes(n)`` must be cryptographically secure (``secrets.token_bytes``)."""
    return JoinToken(id=_letters(random_bytes, ID_CHARS), secret=_letters(random_bytes, SECRET_CHARS), pins=tuple(pins))


def parse(text: str) -> JoinToken:
    """Parse a token.  Raises ``ValueError`` with a sentence that does not quote the text."""
    text = text.strip() if len(text) <= 2 * TEXT_CHARS_MAX else ""
    found = _TEXT.fullmatch(text)
    if found is None:
        shape = "one is like fl1-<10 letters and digits>-<26 letters and digits>-<64 hexadecimal digits>"
        raise ValueError(f"is not a join token{_why(text)}; {shape}")
    return JoinToken(id=found[1], secret=found[2], pins=tuple(found[3].split(".")))


def _why(text: str) -> str:
    """What is wrong with a token that was copied badly; "": the text does not resemble one."""
    head, *parts = text.split("-")
    if head != PREFIX or len(parts) != 3:
        return ": its beginning or its end is missing" if head == PREFIX or re.search(rf"-{_PIN}$", text) else ""
    pins = parts[2].split(".")
    named = [("id", parts[0], ID_CHARS), ("secret", parts[1], SECRET_CHARS), *(("pin", pin, 64) for pin in pins)]
    for name, part, chars in named:
        if len(part) != chars:
            return f": its {name} has {len(part)} characters and must have {chars}; was all of it copied?"
        if not re.fullmatch("[0-9a-f]*" if name == "pin" else "[a-z2-7]*", part):
            return f": its {name} has invalid characters; paste it instead of typing it"
    return f": it has {len(pins)} pins and may have {PINS_MAX}"


def find(text: str) -> JoinToken:
    """Find the token in a longer text, such as the output of ``fairlead token create``.  Raises ``ValueError``."""
    found = {word for word in text.split() if _TEXT.fullmatch(word)}
    if len(found) > 1:
        raise ValueError("is more than one join token; each device needs its own")
    return parse(found.pop() if found else text)


def is_id(text: str) -> bool:
    """True if a JoinToken may have this name."""
    return re.fullmatch(_ID, text) is not None


def hash_of(secret: str) -> str:
    """The hash that the cluster keeps.  A secret with this much entropy needs no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def pin_of(public_key: bytes) -> str:
    """The pin of ``public_key`` (SubjectPublicKeyInfo, DER)."""
    return hashlib.sha256(public_key).hexdigest()


def _letters(random_bytes: Callable[[int], bytes], count: int) -> str:
    return "".join(ALPHABET[each % len(ALPHABET)] for each in random_bytes(count))
