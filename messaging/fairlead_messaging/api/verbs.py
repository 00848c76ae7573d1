"""What a subject may be granted on topics: the words of ``[[access]] verbs``."""

from __future__ import annotations

from enum import StrEnum


class Verb(StrEnum):
    """``create`` is the part of ``administer`` that makes topics."""

    PUBLISH = "publish"
    CONSUME = "consume"
    ADMINISTER = "administer"
    CREATE = "create"


ANY = tuple(Verb)
"""One of them is enough: what says no more than that a topic exists and how far it goes."""
