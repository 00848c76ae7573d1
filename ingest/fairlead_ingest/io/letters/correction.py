"""What a person wants of a dead letter's payload: another one, the same again, or that it is left alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from fairlead_ingest.io.pipeline import plugins
from fairlead_ingest.letters import line as lines
from fairlead_wire.errors import LocalError

OPTION: Final = "--with"
SHOWN_BYTES_MAX: Final = 60
"""Of a payload, in an error of the function that was given it."""


class Unrepaired(Exception):
    """The letter stays one; ``str()`` says why."""


class Correction(Protocol):
    """What is done with each letter's payload."""

    @property
    def method(self) -> str:
        """What the mark of a repaired letter says."""

    @property
    def names(self) -> Mapping[tuple[str, str], int] | None:
        """The letters it is about (topic, id); None: all."""

    def payload(self, letter: dict[str, Any]) -> bytes | None:
        """What to judge, None to leave the letter alone. Raises ``Unrepaired``."""


class Rejudged:
    """The payload is judged again, by the schema and the transforms of today."""

    method = "judged again"
    names = None

    def payload(self, letter: dict[str, Any]) -> bytes | None:
        found: bytes = letter["payload"] or b""
        return found


class ByFunction:
    """``name`` is ``module:function`` or ``path.py:function``. Raises ``Stop``.

    The function takes a letter (a dict: ``topic``, ``id``, ``published_at``, ``code``, ``fields``, ``error`` and
    ``payload``, which is bytes) and gives the payload: bytes, text, or an object to be written as JSON; None leaves
    the letter as it is.
    """

    names = None

    def __init__(self, name: str) -> None:
        self.method = f"function {name.rpartition('/')[2]}"
        self._function: Callable[..., Any] = plugins.load(name, option=OPTION)

    def payload(self, letter: dict[str, Any]) -> bytes | None:
        given = {name.removeprefix("_"): value for name, value in letter.items()}
        given["payload"], given["fields"] = letter["payload"] or b"", letter["fields"] or []
        try:
            found = self._function(given)
            if isinstance(found, str):
                return found.encode()
            if isinstance(found, dict):
                return msgspec.json.encode(found)
        except Exception as error:  # noqa: BLE001  (the user's function; it costs its own letter alone)
            raised = f"{self.method} raised {type(error).__name__}: {error}"
            raise Unrepaired(f"{OPTION}: {raised}; it was given the payload {_begin(given['payload'])}") from None
        if found is None or isinstance(found, bytes):
            return found
        returned = f"{self.method} returned {type(found).__name__} ({_begin(repr(found).encode())})"
        raise Unrepaired(f"{OPTION}: {returned}; it must return bytes, text, a dict or None")


def _begin(payload: bytes) -> str:
    more = "…" if len(payload) > SHOWN_BYTES_MAX else ""
    return f"{payload[:SHOWN_BYTES_MAX]!r}{more}"


class ByFile:
    """An edited export. Raises ``LocalError`` naming the line that cannot be used.

    Held are the places of its lines, some 150 bytes each; a line is read when its letter comes.
    """

    method = "edited"

    def __init__(self, path: Path) -> None:
        self._places: dict[tuple[str, str], int] = {}
        self.names: Mapping[tuple[str, str], int] | None = self._places
        try:
            self._file = path.open("rb")
            self._scan(path)
        except OSError as error:
            raise LocalError(f"--edited {path}: {error.strerror or error}") from None

    def payload(self, letter: dict[str, Any]) -> bytes | None:
        self._file.seek(self._places[letter["_topic"], letter["_id"]])
        try:
            return lines.decode(self._file.readline(lines.LINE_BYTES_MAX)).payload
        except lines.BadLine as error:
            raise Unrepaired(f"--edited: the file has changed since it was read: {error}") from None

    def _scan(self, path: Path) -> None:
        number = 0
        while True:
            place = self._file.tell()
            text = self._file.readline(lines.LINE_BYTES_MAX + 1)
            number += 1
            if not text:
                return
            if len(text) > lines.LINE_BYTES_MAX:
                raise LocalError(f"--edited {path}: line {number}: over {lines.LINE_BYTES_MAX} bytes")
            if not text.strip():
                continue
            try:
                found = lines.decode(text)
            except lines.BadLine as error:
                raise LocalError(f"--edited {path}: line {number}: {error}") from None
            if (found.topic, found.id) in self._places:
                raise LocalError(f"--edited {path}: line {number}: {found.topic} {found.id} is in the file twice")
            self._places[found.topic, found.id] = place
