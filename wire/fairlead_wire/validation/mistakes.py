"""Mistakes in documents that people write: each has a key, a reason, and the word that was probably meant.

    a model's own check ─raises Wrong(Mistake(key, reason), …)─┐
    a document beside its model ─reader.find───────────────────┴▶ (Mistake("link.nodes_max", "must be …, is 'many'"), …)

The text is made here from the type and limits of the key, not by the library that read the document: msgspec reads
documents at the edge and on the wire, pydantic in the cluster, and people should not notice which.
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from fairlead_wire.validation import addresses

MISTAKES_MAX: Final = 100
"""Most mistakes that are reported at once."""
REQUIRED: Final = "required, but not set"
KEYS_AND_VALUES: Final = "keys and values"

_QUOTED = re.compile(r"[^\s'\"]+")
"""The parts of a quoted list or table that may be addresses."""
_WORDS: Final = {int: "a whole number", float: "a number", str: "text", bool: "true or false", list: "a list"}
_LOWER: Final = (("ge", "at least {}"), ("gt", "above {}"))
_UPPER: Final = (("le", "at most {}"), ("lt", "below {}"))


class Mistake(msgspec.Struct, frozen=True):
    """``key`` as people write it (``store.max_bytes``, ``topics[2]``), empty for the whole document."""

    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}" if self.key else self.reason

    def below(self, key: str) -> Mistake:
        """The same mistake in a document that contains this one at ``key``."""
        return Mistake(join(key, self.key), self.reason)


class Wrong(ValueError):
    """Raised by a model's own checks with all their mistakes; ``str()`` has a line for each."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = mistakes

    @property
    def sentence(self) -> str:
        """All mistakes in one line, for an answer to a program."""
        return "; ".join(map(str, self.mistakes))


def wrong(key: str, reason: str) -> Wrong:
    """``Wrong`` with one mistake, to be raised."""
    return Wrong(Mistake(key, reason))


def refuse(found: Iterable[Mistake]) -> None:
    """Raise ``Wrong`` with these mistakes, if there are any."""
    if mistakes := tuple(found):
        raise Wrong(*mistakes)


def of(error: BaseException | None) -> tuple[Mistake, ...]:
    """The mistakes in ``Wrong``; the text of any other error as one mistake of the whole document."""
    if isinstance(error, Wrong):
        return error.mistakes
    return (Mistake("", str(error)),)


def join(path: str, name: str) -> str:
    """The key ``name`` below ``path``; either may be empty, and an index is appended without a dot."""
    if path and name:
        return f"{path}{name}" if name.startswith("[") else f"{path}.{name}"
    return path or name


def unknown(meant: str | None) -> str:
    """The reason for an unknown key, with the one that was probably meant."""
    return f"unknown key; did you mean {meant}?" if meant else "unknown key"


def not_one_of(allowed: Iterable[Any], value: Any) -> str:
    """The reason for a value that is not one of those allowed."""
    names = [str(each) for each in allowed]
    meant = nearest(str(value), names)
    return f"must be one of {', '.join(names)}, is {shown(value)}" + (f"; did you mean {meant}?" if meant else "")


def misfit(annotation: Any, value: Any) -> str:
    """The reason for a value that the type or the limits of its key do not allow."""
    return f"must be {expected(annotation)}, is {shown(value)}"


def expected(annotation: Any) -> str:
    """The values of a type in words: "a whole number from 1 to 65536"."""
    kinds: list[str] = []
    for member, limits in members(annotation):
        if (choices := allowed(member)) is not None:
            kinds.append(f"one of {', '.join(map(str, choices))}")
        elif member is not type(None):
            kinds.append(_kind(member, limits))
    kinds = [each for each in kinds if "a whole" not in each or each.replace("a whole", "a") not in kinds]
    return " or ".join(dict.fromkeys(kinds)) or "nothing"


def allowed(annotation: Any) -> tuple[Any, ...] | None:
    """The values of a ``Literal``; None for any other type."""
    return get_args(annotation) if get_origin(annotation) is Literal else None


def members(annotation: Any, limits: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The members of a union (or the type itself), each without ``Annotated`` and with its annotations."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        # pydantic keeps the limits of a Field in a separate list.
        each = [limit for given in more for limit in getattr(given, "metadata", None) or (given,)]
        yield from members(inner, (*limits, *each))
    elif origin in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from members(each, limits)
    else:
        yield annotation, limits


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant, if one is similar enough."""
    found = difflib.get_close_matches(word, list(words), n=1, cutoff=0.7)
    return found[0] if found else None


def shown(value: Any) -> str:
    """A value as an error quotes it: truncated, and without passwords in addresses."""
    try:
        text = repr(addresses.shown(value)) if isinstance(value, str) else _QUOTED.sub(_without_secret, repr(value))
    except RecursionError:
        text = "nested too deeply"
    return text if len(text) <= addresses.SHOWN_CHARS_MAX else f"{text[: addresses.SHOWN_CHARS_MAX]}…"


def _without_secret(word: re.Match[str]) -> str:
    return addresses.shown(word[0])


def _kind(member: Any, limits: tuple[Any, ...]) -> str:
    plain = get_origin(member) or member
    word = _WORDS.get(plain) or (KEYS_AND_VALUES if plain is dict or _has_fields(plain) else _name(plain))
    for limit in limits:
        if (pattern := getattr(limit, "pattern", None)) is not None:
            word = f"{word} like {pattern}"
    low, high = _limit(limits, _LOWER), _limit(limits, _UPPER)
    if low.startswith("at least") and high.startswith("at most"):
        return f"{word} from {low.removeprefix('at least ')} to {high.removeprefix('at most ')}"
    if low or high:
        limit = " and ".join(each for each in (low, high) if each)
        return f"{word} of {limit}" if limit.startswith("at ") else f"{word} {limit}"
    shortest, longest = _length(limits, "min_length"), _length(limits, "max_length")
    unit = "entries" if plain in (list, dict) else "characters"
    if shortest and not longest:
        return f"{word} that is not empty" if shortest == 1 else f"{word} of at least {shortest} {unit}"
    if longest:
        return f"{word} of {shortest} to {longest} {unit}" if shortest else f"{word} of at most {longest} {unit}"
    return word


def _limit(limits: tuple[Any, ...], names: tuple[tuple[str, str], ...]) -> str:
    for limit in limits:
        for name, words in names:
            if (bound := getattr(limit, name, None)) is not None:
                return words.format(f"{bound:g}" if isinstance(bound, float) else bound)
    return ""


def _length(limits: tuple[Any, ...], name: str) -> int:
    return next((found for limit in limits if (found := getattr(limit, name, None))), 0)


def _has_fields(plain: Any) -> bool:
    return hasattr(plain, "__struct_fields__") or hasattr(plain, "model_fields")


def _name(plain: Any) -> str:
    return {"datetime": "a time", "date": "a day", "time": "a time of day", "bytes": "text in base64"}.get(
        getattr(plain, "__name__", ""), "another value"
    )
