"""Paused objects, and the kinds that are watched because of them.

    fairlead.dev/paused: "<why>"    while an object has it, no update or delete of the object is sent to any node

The annotation is an instruction to the hub and not part of the delivered content, so setting or removing it sends
nothing by itself.  It ends with the object: when the object is deleted, nodes delete it
(docs/decisions/0420-pausing-nodes-and-objects.md).

    paused objects in the object cache                            ┐
    ObjectSyncs that say Paused, read at the start ─remembered─▶  ┴─▶ kinds(), perhaps_paused()

Whether an object is paused is known only while its kind is watched, so such kinds are watched even when no rule names
them any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from fairlead_wire.objects.api_group import PAUSED

if TYPE_CHECKING:  # content reads the annotation of each object
    from fairlead_hub.cluster.content import GroupKind
    from fairlead_hub.cluster.object_cache import ObjectCache


class PausedKinds:
    """See the module."""

    def __init__(self, object_cache: ObjectCache) -> None:
        self._object_cache = object_cache
        self._remembered: dict[GroupKind, str] = {}
        self._is_known = True

    def wait(self) -> None:
        """Wait for the documents that say what was paused before this hub started."""
        self._is_known = False

    def remember(self, kinds: Mapping[GroupKind, str]) -> None:
        """Objects of these kinds (→ apiVersion) were paused when the documents were written."""
        self._remembered |= kinds

    def listed(self) -> bool:
        """All documents have been read.  Returns True the first time."""
        was_known, self._is_known = self._is_known, True
        return not was_known

    def kind_synced(self, kind: GroupKind) -> None:
        """From now on the object cache knows which objects of this kind are paused."""
        self._remembered.pop(kind, None)

    def kinds(self) -> dict[GroupKind, tuple[str, ...]]:
        """Kinds to watch, with their apiVersions."""
        found: dict[GroupKind, tuple[str, ...]] = {kind: (version,) for kind, version in self._remembered.items()}
        for key in self._object_cache.paused:
            live = self._object_cache.get(key)
            if live is not None:
                found.setdefault(live.group_kind, (live.kind.api_version,))
        return found

    def remembered(self) -> list[GroupKind]:
        """Kinds for which it is not known yet which objects are still paused."""
        return list(self._remembered)

    @property
    def is_known(self) -> bool:
        """Whether the documents that say what was paused are listed."""
        return self._is_known


WHY_CHARS_MAX: Final = 256
"""Limit of a pause's reason.  The annotation may be a thousand times longer, and the reason is shown in tables."""


def reason(annotations: Mapping[str, str] | None) -> str:
    """The reason of a pause on one line; empty if it is not paused."""
    why = annotations.get(PAUSED) if annotations else None
    return "" if why is None else " ".join(why.split())[:WHY_CHARS_MAX] or "no reason given"


class _Pausable(Protocol):
    paused: str


def is_changed(before: _Pausable | None, after: _Pausable | None) -> bool:
    """Whether it was paused, resumed, or paused for another reason."""
    return (before.paused if before is not None else "") != (after.paused if after is not None else "")
