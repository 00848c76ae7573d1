"""Small files beside the stores, each content sealed as a whole: AES-256-GCM, bound to the name of its file.

    magic, name of the data key, size, salt, counter, ciphertext with its tag

Some of them are written after each commit for years, more often than one key may be used with random nonces.  So each
opening has a key of its own (from the data key and a random salt) and counts.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fairlead_edge.io.file_access import KEY_NAME_BYTES, SEALED_MAGIC

_HEAD: Final = struct.Struct(f">{len(SEALED_MAGIC)}s{KEY_NAME_BYTES}sI16sQ")
TAG_BYTES: Final = 16
SALT_BYTES: Final = 16
_COUNTER_BYTES: Final = 12

Derive = Callable[[bytes], bytes]
"""Salt to a key of 32 bytes."""


class SmallFiles:
    """``name`` is that of the data key behind ``derive``."""

    def __init__(self, derive: Derive, name: str, random: Callable[[int], bytes] = os.urandom) -> None:
        self._derive = derive
        self._name = name.encode()
        self._salt = random(SALT_BYTES)
        self._cipher = AESGCM(derive(self._salt))
        self._counter = itertools.count()

    def seal(self, content: bytes, name: str) -> bytes:
        count = next(self._counter)
        head = _HEAD.pack(SEALED_MAGIC, self._name, len(content) + TAG_BYTES, self._salt, count)
        return head + self._cipher.encrypt(count.to_bytes(_COUNTER_BYTES, "big"), content, head + name.encode())

    def unseal(self, content: bytes, name: str) -> bytes:
        """Raises ``ValueError``: it is not what was written, or was written with another key."""
        head, body = content[: _HEAD.size], content[_HEAD.size :]
        try:
            magic, key, size, salt, count = _HEAD.unpack(head)
            if magic != SEALED_MAGIC or key != self._name or size > len(body):
                raise ValueError("it was not sealed with this key")
            cipher = AESGCM(self._derive(salt))
            return cipher.decrypt(count.to_bytes(_COUNTER_BYTES, "big"), body[:size], head + name.encode())
        except (struct.error, InvalidTag):
            raise ValueError("it is not what was sealed") from None
