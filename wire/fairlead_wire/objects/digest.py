"""Content digests, and the bucketed sums by which two stores are compared.

An *entry* is (UID, content digest).  Entries fall into ``2**bits`` buckets by the first bits of SHA-256(UID).  A
bucket's sum adds its entries' hashes modulo 2**128, so it is updated by addition and subtraction, in any order.  The
root is the hash of all sums.  If the roots are equal, so are the stores; otherwise the sums are exchanged, and then the
entries of the buckets whose sums differ.  With about eight entries per bucket, finding one differing object among
10,000 costs 20 KiB instead of 10,000 names.  (Addition rather than xor, with which an entry counted twice would
vanish.)
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable

SUM_BYTES = 16
BITS_MAX = 12
ENTRIES_PER_BUCKET = 8
ENTRIES_KEPT_MAX = 4096
"""Size of the cache of entry hashes: objects that all nodes hold are hashed for each node that reconnects."""
_MODULUS = 1 << (8 * SUM_BYTES)


def content_digest(content: bytes) -> str:
    """Hex SHA-256 of the delivered content, byte for byte."""
    return hashlib.sha256(content).hexdigest()


def bits_for(entries: int) -> int:
    """The number of bucket bits (0 to ``BITS_MAX``) for a store with so many entries."""
    buckets = max(1, entries // ENTRIES_PER_BUCKET)
    return min(BITS_MAX, (buckets - 1).bit_length())


def bucket_of(uid: str, bits: int) -> int:
    """The bucket of a UID among ``2**bits``."""
    if not bits:
        return 0
    first = hashlib.sha256(uid.encode()).digest()[:2]
    return int.from_bytes(first, "big") >> (16 - bits)


@functools.lru_cache(maxsize=ENTRIES_KEPT_MAX)
def entry_hash(uid: str, digest: str) -> int:
    """The hash that one entry adds to its bucket's sum."""
    return int.from_bytes(hashlib.sha256(f"{uid}\n{digest}".encode()).digest()[:SUM_BYTES], "big")


class Buckets:
    """Sums of ``2**bits`` buckets; ``add`` and ``discard`` commute."""

    __slots__ = ("bits", "sums")

    def __init__(self, bits: int) -> None:
        if not 0 <= bits <= BITS_MAX:
            raise ValueError(f"bits must be 0 to {BITS_MAX}, not {bits}")
        self.bits = bits
        self.sums = [0] * (1 << bits)

    @classmethod
    def of(cls, entries: Iterable[tuple[str, str]], bits: int) -> Buckets:
        buckets = cls(bits)
        for uid, digest in entries:
            buckets.add(uid, digest)
        return buckets

    def add(self, uid: str, digest: str) -> None:
        index = bucket_of(uid, self.bits)
        self.sums[index] = (self.sums[index] + entry_hash(uid, digest)) % _MODULUS

    def discard(self, uid: str, digest: str) -> None:
        index = bucket_of(uid, self.bits)
        self.sums[index] = (self.sums[index] - entry_hash(uid, digest)) % _MODULUS

    def encode(self) -> bytes:
        return b"".join(value.to_bytes(SUM_BYTES, "big") for value in self.sums)

    @property
    def root(self) -> str:
        """Hex hash of ``bits`` and all sums."""
        return hashlib.sha256(bytes([self.bits]) + self.encode()).hexdigest()

    def differing(self, encoded: bytes) -> list[int]:
        """Indices of the buckets whose sums differ from the peer's.  Raises ``ValueError`` for a wrong length."""
        if len(encoded) != SUM_BYTES << self.bits:
            raise ValueError(f"{len(encoded)} bytes of sums do not fit {1 << self.bits} buckets")
        mine = self.encode()
        return [
            index
            for index in range(1 << self.bits)
            if mine[index * SUM_BYTES : (index + 1) * SUM_BYTES] != encoded[index * SUM_BYTES : (index + 1) * SUM_BYTES]
        ]
