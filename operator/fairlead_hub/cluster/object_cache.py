"""All objects the hub watches, indexed for placement: by kind, by bound node, by the nodes whose Pods refer to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from fairlead_hub.cluster.content import GroupKind, LiveObject


class ObjectChange(msgspec.Struct, frozen=True, kw_only=True):
    """What one observation changed; ``before`` is None for a new object, ``after`` is None for a deleted one."""

    key: str
    before: LiveObject | None
    after: LiveObject | None


class ObjectCache:
    """The latest known state per key.

    Versions are not compared: the watch is ordered, and versions fall after a restore.
    """

    def __init__(self) -> None:
        self._by_key: dict[str, LiveObject] = {}
        self._by_kind: dict[GroupKind, dict[str, LiveObject]] = defaultdict(dict)
        self._bound: dict[str, dict[str, LiveObject]] = defaultdict(dict)
        self._referrers: dict[str, dict[str, int]] = defaultdict(dict)
        self._referred: dict[str, dict[str, int]] = defaultdict(dict)
        self.paused: set[str] = set()
        """Keys of paused objects."""
        self.generation: dict[GroupKind, int] = defaultdict(int)
        """Counts changes of a kind.  Caches derived from it compare this number."""

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: str) -> LiveObject | None:
        return self._by_key.get(key)

    def of_kind(self, kind: GroupKind) -> dict[str, LiveObject]:
        return self._by_kind.get(kind, {})

    def bound_to(self, node: str) -> dict[str, LiveObject]:
        """Pods whose ``spec.nodeName`` is this node."""
        return self._bound.get(node, {})

    def referred_from(self, node: str) -> Iterable[str]:
        """Keys that Pods bound to this node refer to."""
        return self._referred.get(node, {}).keys()

    def referrers(self, key: str) -> Iterable[str]:
        """Nodes with a bound Pod that refers to this key."""
        return self._referrers.get(key, {}).keys()

    def put(self, live: LiveObject) -> ObjectChange | None:
        """Add or update an object.  Returns None if its delivered content is unchanged: nothing to send or write.

        Even with the same content, a Pod may refer to more objects, because its status names those made for it; and the
        object may have been paused or resumed.
        """
        before = self._by_key.get(live.key)
        if before is not None and before.uid == live.uid and before.digest == live.digest and before.kind == live.kind:
            if before.references == live.references and before.paused == live.paused:
                before.seen_version = live.seen_version
                return None
            live.version, live.held = before.version, before.held
        if before is not None:
            self._unindex(before)
        self._by_key[live.key] = live
        self._by_kind[live.group_kind][live.key] = live
        self._index(live)
        self.generation[live.group_kind] += 1
        return ObjectChange(key=live.key, before=before, after=live)

    def remove(self, key: str, uid: str) -> ObjectChange | None:
        """Remove an object.

        Returns None if it is not here under this UID: a late delete of an earlier object of that name.
        """
        before = self._by_key.get(key)
        if before is None or before.uid != uid:
            return None
        del self._by_key[key]
        del self._by_kind[before.group_kind][key]
        self._unindex(before)
        self.generation[before.group_kind] += 1
        return ObjectChange(key=key, before=before, after=None)

    def forget_kind(self, kind: GroupKind) -> list[ObjectChange]:
        """Remove a kind that no rule names any more."""
        changes = [self.remove(live.key, live.uid) for live in list(self.of_kind(kind).values())]
        return [change for change in changes if change is not None]

    def _index(self, live: LiveObject) -> None:
        if live.paused:
            self.paused.add(live.key)
        if not live.node_name:
            return
        self._bound[live.node_name][live.key] = live
        referred = self._referred[live.node_name]
        for key in live.references:
            referred[key] = referred.get(key, 0) + 1
            referrers = self._referrers[key]
            referrers[live.node_name] = referrers.get(live.node_name, 0) + 1

    def _unindex(self, live: LiveObject) -> None:
        if live.paused:
            self.paused.discard(live.key)
        if not live.node_name:
            return
        _drop(self._bound, live.node_name, live.key)
        for key in live.references:
            _decrement(self._referred, live.node_name, key)
            _decrement(self._referrers, key, live.node_name)


def _drop(index: dict[str, dict[str, LiveObject]], outer: str, inner: str) -> None:
    index[outer].pop(inner, None)
    if not index[outer]:
        del index[outer]


def _decrement(index: dict[str, dict[str, int]], outer: str, inner: str) -> None:
    left = index[outer][inner] - 1
    if left:
        index[outer][inner] = left
        return
    del index[outer][inner]
    if not index[outer]:
        del index[outer]
