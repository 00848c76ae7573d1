"""The tokens file of modules: parses it, and finds the module of a token.

    # NAME SHA-256 of the token, in hex; two lines of one name while a token is being replaced
    filter 5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8

The file holds only hashes.  Tokens are long and random, so a fast hash is enough.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

from fairlead_edge import ascii_case
from fairlead_wire.errors import FairleadError

FILE_BYTES_MAX: Final = 1024 * 1024
LINES_MAX: Final = 1000
NAME_CHARS_MAX: Final = 128
TOKEN_CHARS_MAX: Final = 1024
"""Longer tokens are refused without hashing them."""

_NAME: Final = re.compile(rf"[^/#\x00-\x20\x7f]{{1,{NAME_CHARS_MAX}}}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


class BadTokens(FairleadError):
    """The text is not a valid tokens file; the message names the line, and quotes nothing of it except names."""


class ModuleTokens:
    """The modules that have tokens.  Names that differ only in case are the same."""

    def __init__(self, hashes: tuple[tuple[str, bytes], ...] = ()) -> None:
        self._hashes = hashes
        self._names = {ascii_case.folded(name) for name, _ in hashes}

    @property
    def count(self) -> int:
        """The number of modules."""
        return len(self._names)

    def has(self, module: str) -> bool:
        """Whether this module has a token; the case of the name is ignored, as in the sources of routes."""
        return ascii_case.folded(module) in self._names

    def module_of(self, token: str) -> str:
        """The module of this token; "" if there is none.  Takes the same time for every token."""
        if len(token) > TOKEN_CHARS_MAX:
            return ""
        shown = digest(token)
        found = ""
        for name, expected in self._hashes:
            if hmac.compare_digest(shown, expected):
                found = name
        return found


def digest(token: str) -> bytes:
    """The hash of a token, as in the file."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def line(module: str, token: str) -> str:
    """A line of the file.  Raises ``BadTokens`` for an invalid name."""
    if not _NAME.fullmatch(module):
        raise BadTokens(f"a module's name has 1 to {NAME_CHARS_MAX} characters, no blanks, / or #; is {module[:80]!r}")
    return f"{module} {digest(token).hex()}"


def parse(text: str) -> ModuleTokens:
    """Parse a tokens file.  Raises ``BadTokens``."""
    lines = text.splitlines()
    if len(lines) > LINES_MAX or len(text) > FILE_BYTES_MAX:
        raise BadTokens(f"at most {LINES_MAX} lines and {FILE_BYTES_MAX} bytes; has {len(lines)} and {len(text)}")
    hashes: list[tuple[str, bytes]] = []
    spelled: dict[str, str] = {}
    for number, each in enumerate(lines, 1):
        words = each.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not _NAME.fullmatch(words[0]) or not _HASH.fullmatch(words[1].lower()):
            raise BadTokens(f"line {number}: must be a module's name and the SHA-256 of its token, 64 hex digits")
        before = spelled.setdefault(ascii_case.folded(words[0]), words[0])
        if before != words[0]:
            raise BadTokens(f"line {number}: {words[0]} and {before} differ only in case")
        hashes.append((words[0], bytes.fromhex(words[1])))
    return ModuleTokens(tuple(hashes))
