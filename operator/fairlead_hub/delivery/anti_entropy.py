"""The comparison that opens a session: what the edge holds and what it should hold, by bucketed digests.

    hello(root) ── equal ─────────────────────────────────────▶ Compared(held = wanted)
        └─ differs ─ compare ▸ buckets ▸ list ▸ entries ▸ … ──▶ Compared(held = wanted elsewhere, entries here)

What the edge holds is read from the edge's own store, never from records.  Nothing is sent while a comparison runs, so
the edge's snapshot does not change; changes of the cluster during it are handled afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from fairlead_hub.cluster.content import HeldCopy, LiveObject
from fairlead_hub.cluster.desired_state import ClusterView
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec, peer_json
from fairlead_wire.objects import digest, resource

_entries = msgspec.json.Decoder(list[message.HeldEntry])


class Comparison:
    """One comparison, against a snapshot of what the node should hold.

    ``start`` asks, the ``*_arrived`` methods continue.
    """

    def __init__(self, *, wanted: Mapping[str, LiveObject], held_max: int) -> None:
        self._wanted = wanted
        self._held_max = held_max
        self._bits = 0
        self._buckets: frozenset[int] | None = None
        self._asked = 0
        self._listed: dict[str, HeldCopy] = {}
        self.divergent_buckets = 0

    def equal_from_the_start(self, hello: message.Hello) -> bool:
        if hello.held != len(self._wanted) or not 0 <= hello.bits <= digest.BITS_MAX:
            return False
        return self._sums(hello.bits).root == hello.root

    def all_held(self) -> dict[str, HeldCopy]:
        return {key: live.held for key, live in self._wanted.items()}

    def ask(self, id: int, edge_holds: int) -> message.Compare:
        self._bits = digest.bits_for(max(edge_holds, len(self._wanted)))
        self._asked = id
        return message.Compare(id=id, bits=self._bits)

    def buckets_arrived(self, header: message.BucketSums, content: bytes, id: int) -> message.ListBuckets | None:
        """What to list next, or None if nothing differs after all.  Raises ``Malformed``."""
        if self._buckets is not None or header.parent_id != self._asked or header.bits != self._bits:
            raise Malformed("unrequested buckets")
        try:
            differing = self._sums(self._bits).differing(content)
        except ValueError as error:
            raise Malformed(f"buckets: {error}") from None
        self._buckets = frozenset(differing)
        self.divergent_buckets = len(differing)
        if not differing:
            return None
        self._asked = id
        return message.ListBuckets(id=id, bits=self._bits, buckets=differing)

    def entries_arrived(self, header: message.Entries, content: bytes) -> bool:
        """Returns True for the last frame.  Raises ``Malformed``."""
        if not self._buckets or header.parent_id != self._asked:
            raise Malformed("unrequested entries")
        entries = peer_json.decode(_entries, codec.unpack(header.encoding, content))
        if len(self._listed) + len(entries) > self._held_max:
            raise Malformed(f"more than {self._held_max} entries")
        for entry in entries:
            parsed = resource.parse(entry.resource)
            if digest.bucket_of(entry.uid, self._bits) in self._buckets:
                self._listed[parsed.key] = HeldCopy(entry.resource, entry.uid, entry.digest, entry.resource_version)
        return header.last

    def result(self) -> dict[str, HeldCopy]:
        """What the edge holds, by key: the wanted objects where sums agreed, the listed entries where they did not."""
        differing = self._buckets or frozenset()
        held = {
            key: live.held
            for key, live in self._wanted.items()
            if digest.bucket_of(live.uid, self._bits) not in differing
        }
        held.update(self._listed)
        return held

    def _sums(self, bits: int) -> digest.Buckets:
        return digest.Buckets.of(_pairs(self._wanted.values()), bits)


class AntiEntropy:
    """From a node's hello until it is known what the edge holds (``held``); then the session discards it."""

    def __init__(self, hello: message.Hello, view: ClusterView, *, held_max: int, take_id: Callable[[], int]) -> None:
        self._hello, self._view, self._held_max, self._take_id = hello, view, held_max, take_id
        self._comparison: Comparison | None = None
        self.held: dict[str, HeldCopy] | None = None
        self.divergent_buckets = 0

    @property
    def not_synced(self) -> str:
        """Why it cannot begin; empty if it has begun or may."""
        return "" if self._comparison is not None else self._view.not_synced(self._hello.node)

    def begin(self) -> message.Compare | None:
        """The first question, if it may begin and has not; None also if both roots are equal."""
        if self._comparison is not None or self.not_synced:
            return None
        self._comparison = Comparison(wanted=self._view.desired_objects(self._hello.node), held_max=self._held_max)
        if self._comparison.equal_from_the_start(self._hello):
            self.held = self._comparison.all_held()
            return None
        return self._comparison.ask(self._take_id(), self._hello.held)

    def received(self, header: message.BucketSums | message.Entries, content: bytes) -> message.ListBuckets | None:
        """Handle an answer; return the next question.  Raises ``Malformed``."""
        if self._comparison is None:
            raise Malformed("no comparison is running")
        listing = None
        match header:
            case message.BucketSums():
                listing = self._comparison.buckets_arrived(header, content, self._take_id())
                over = listing is None
            case message.Entries():
                over = self._comparison.entries_arrived(header, content)
        if over:
            self.held = self._comparison.result()
            self.divergent_buckets = self._comparison.divergent_buckets
        return listing


def _pairs(wanted: Iterable[LiveObject]) -> Iterable[tuple[str, str]]:
    return ((live.uid, live.digest) for live in wanted)
