"""A parser of external input, and what must be true for any input.

    bytes ─ read ─▶ anything      it was understood, and every promise that ``read`` checks held
                 ─▶ a refusal     one of the named errors, for which a caller is prepared
                 ─▶ a finding     any other exception, a broken promise, too much time, too much memory, a crash

One folder of ``tests/corpus/`` belongs to each target: inputs that are understood, inputs that are refused, and each
input that once was a finding, with its sentence beside it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Shape = Literal["bytes", "text", "json", "der", "frame", "story", "request"]
"""How an input is made of parts, for a mutator that changes parts rather than bytes (``mutate``).

``frame``: of the link, a header and a content.  ``request``: the first line is a query or a name, the rest is a body.
"""
ROOT = Path(__file__).resolve().parents[2]
INPUT_BYTES_MAX = 64 * 1024
"""Longest input that is tried; limits of parsers that are higher have tests of their own."""
TRIES = 400
"""Changed inputs of each target in ``make test``."""


class Broken(Exception):
    """A promise did not hold."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """``read`` gives one input to the parser and checks what it promises; ``refusals`` are what it may raise."""

    name: str
    """Also of its folder in the corpus."""
    says: str
    """What is read, from whom, and what must hold."""
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    shape: Shape
    words: tuple[bytes, ...] = ()
    """What its language is made of, for the mutator."""
    tries: int = TRIES


@dataclass(frozen=True)
class Finding:
    """An input that breaks a rule.  ``place`` distinguishes findings, not their messages."""

    kind: str
    place: str
    sentence: str

    @property
    def same(self) -> tuple[str, str]:
        return self.kind, self.place


def promise(held: bool, sentence: str) -> None:
    """Raises ``Broken`` with the sentence unless it held."""
    if not held:
        raise Broken(sentence)


def attempt(target: Target, content: bytes) -> Finding | None:
    """Try the input; None if it was understood or refused with a named error."""
    try:
        target.read(content)
    except target.refusals:
        return None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever else comes out is what is looked for
        return finding_of(error)
    return None


def finding_of(error: BaseException) -> Finding:
    """The finding for an error, named by the innermost line of the project in its traceback."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_ours(each.filename)]
    at = frames[-1] if frames else None
    place = f"{Path(at.filename).relative_to(ROOT)}:{at.name}" if at is not None else "?"
    kind = type(error).__name__
    said = str(error)[:300]
    return Finding(kind, f"{place}:{said}" if kind == "Broken" else place, f"{kind} in {place}: {said}")


def _is_ours(filename: str) -> bool:
    return filename.startswith(str(ROOT)) and "/.venv/" not in filename
