"""Kinds that are watched because objects of them are paused, also when no rule names the kind any more.

    objects that are paused (object cache)                         ┐
    ObjectSyncs that say Paused, read at the start ─remembered─▶   ┴─▶ kinds(), perhaps_paused()

Whether a pause stands is only known of a kind that is watched, and a paused object is deleted nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_hub.cluster.content import GroupKind
from fairlead_hub.cluster.object_cache import ObjectCache


class PausedKinds:
    """See the module."""

    def __init__(self, object_cache: ObjectCache) -> None:
        self._object_cache = object_cache
        self._remembered: dict[GroupKind, str] = {}
        self._is_known = True

    def wait(self) -> None:
        """A hub has started, and what was paused before stands in documents that are not listed yet."""
        self._is_known = False

    def remember(self, kinds: Mapping[GroupKind, str]) -> None:
        """Objects of these kinds (→ apiVersion) were paused when the documents were written."""
        self._remembered |= kinds

    def listed(self) -> bool:
        """All documents have been read.  True: for the first time."""
        was_known, self._is_known = self._is_known, True
        return not was_known

    def kind_synced(self, kind: GroupKind) -> None:
        """From now on the object cache knows which of its objects are paused."""
        self._remembered.pop(kind, None)

    def kinds(self) -> dict[GroupKind, tuple[str, ...]]:
        """To be watched at these apiVersions."""
        found: dict[GroupKind, tuple[str, ...]] = {kind: (version,) for kind, version in self._remembered.items()}
        for key in self._object_cache.paused:
            live = self._object_cache.get(key)
            if live is not None:
                found.setdefault(live.group_kind, (live.kind.api_version,))
        return found

    def remembered(self) -> list[GroupKind]:
        """Kinds of which it is not known yet which objects are still paused."""
        return list(self._remembered)

    @property
    def is_known(self) -> bool:
        """False: the documents that say what was paused are not listed yet."""
        return self._is_known
