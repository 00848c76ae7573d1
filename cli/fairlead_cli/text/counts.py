"""How many of something, for people: "1 dead letter", "2 dead letters"."""

from __future__ import annotations


def of(number: int, noun: str, plural: str = "") -> str:
    """``plural`` where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
