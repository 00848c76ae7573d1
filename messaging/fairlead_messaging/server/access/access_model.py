"""``[[access]]`` and ``[token_review]`` as people write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Self

import pydantic
from pydantic import Field

from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server.access import subject, topic_glob
from fairlead_messaging.server.access.access_table import AccessEntry, AccessTable
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.model import Model

ENTRIES_MAX: Final = 10_000
AUDIENCE: Final = "fairlead-messaging"


class AccessModel(Model):
    """Grants of one subject; several entries of one add up. What no entry grants is 403."""

    subject: str
    """A name in a certificate (common name, or the first DNS name), a SPIFFE URI (`spiffe://…`), or
    `serviceaccount:NAMESPACE:NAME`."""
    verbs: Annotated[list[str], Field(min_length=1)]
    """`publish`, `consume`, `administer`; `create` is the part of `administer` that makes topics."""
    topics: Annotated[list[str], Field(min_length=1, max_length=ENTRIES_MAX)]
    """Globs of `namespace/name`: `*` stands for any characters of one part, `*` alone for every topic, `!` in front
    takes topics away from this entry."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        mistakes.refuse(self._wrong())
        return self

    def _wrong(self) -> Iterator[Mistake]:
        try:
            subject.parse(self.subject)
        except ValueError as error:
            yield Mistake("subject", f"{error}, is {mistakes.shown(self.subject)}")
        for index, verb in enumerate(self.verbs):
            if verb not in set(Verb):
                yield Mistake(f"verbs[{index}]", mistakes.not_one_of(Verb, verb))
        for index, text in enumerate(self.topics):
            try:
                topic_glob.parse(text)
            except ValueError as error:
                yield Mistake(f"topics[{index}]", f"{error}; is {mistakes.shown(text)}")
        if all(text.startswith("!") for text in self.topics):
            yield Mistake("topics", "grants nothing: each pattern takes topics away; add * to begin with all")

    @property
    def entry(self) -> AccessEntry:
        return AccessEntry(
            subject.parse(self.subject), frozenset(map(Verb, self.verbs)), tuple(map(topic_glob.parse, self.topics))
        )


class TokenReviewModel(Model):
    """Where tokens of ServiceAccounts are checked: `POST …/tokenreviews` of the Kubernetes API. Used when an entry of
    `access` names a ServiceAccount."""

    kubeconfig: FilePath | None = None
    """Absent: in-cluster. Needs the ClusterRole `system:auth-delegator`."""
    audience: Annotated[str, Field(min_length=1, max_length=253)] = AUDIENCE
    """What a token must be made for (`audiences` of a projected token); one for the API server itself opens nothing."""


def table(entries: list[AccessModel]) -> AccessTable:
    return AccessTable(each.entry for each in entries)
