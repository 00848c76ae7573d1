"""The verbs that ``[[access]]`` can grant on topics."""

from __future__ import annotations

from enum import StrEnum


class Verb(StrEnum):
    """``create`` is the part of ``administer`` that makes topics."""

    PUBLISH = "publish"
    CONSUME = "consume"
    ADMINISTER = "administer"
    CREATE = "create"


ANY = tuple(Verb)
"""One of these suffices for calls that reveal only that a topic exists and where it ends."""
