"""The table of ``[[access]]``: who may do what on which topics.  What no entry grants is denied.

Entries of one subject add up; inside one entry a topic taken away by ``!`` is not granted by that entry, in whatever
order they stand.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server.access import topic_glob
from fairlead_messaging.server.access.subject import Identity, Subject
from fairlead_messaging.server.access.topic_glob import TopicGlob

IDENTITIES_KEPT: Final = 1024


class AccessEntry(msgspec.Struct, frozen=True):
    """One ``[[access]]`` entry."""

    subject: Subject
    verbs: frozenset[Verb]
    topics: tuple[TopicGlob, ...]

    def grants(self, verb: Verb, namespace: str, name: str) -> bool:
        if verb not in self.verbs and not (verb is Verb.CREATE and Verb.ADMINISTER in self.verbs):
            return False
        matching = [each for each in self.topics if each.matches(namespace, name)]
        return bool(matching) and not any(each.excludes for each in matching)

    @property
    def is_for_every_topic(self) -> bool:
        everything = topic_glob.parse(topic_glob.EVERYTHING)
        return everything in self.topics and not any(each.excludes for each in self.topics)


class Grants(msgspec.Struct, frozen=True):
    """What one identity may do."""

    entries: tuple[AccessEntry, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    def may(self, verb: Verb, namespace: str, name: str) -> bool:
        return any(each.grants(verb, namespace, name) for each in self.entries)

    def may_some(self, verb: Verb) -> bool:
        """Anywhere at all: to begin a transaction, which names no topic yet."""
        return any(verb in each.verbs for each in self.entries)

    def sees(self, namespace: str, name: str) -> bool:
        """Whether it may know of this topic: any verb is enough."""
        return any(self.may(verb, namespace, name) for verb in Verb)

    def may_everywhere(self, verb: Verb) -> bool:
        """On every topic there is and will be."""
        return any(verb in each.verbs and each.is_for_every_topic for each in self.entries)


class AccessTable:
    """By subject."""

    def __init__(self, entries: Iterable[AccessEntry]) -> None:
        self._entries = tuple(entries)
        self._of = lru_cache(IDENTITIES_KEPT)(self._find)

    def of(self, identity: Identity) -> Grants:
        """What all names of this identity are granted together."""
        return self._of(identity)

    def _find(self, identity: Identity) -> Grants:
        if identity.refused:
            return Grants()
        return Grants(tuple(each for each in self._entries if each.subject in identity.subjects))
