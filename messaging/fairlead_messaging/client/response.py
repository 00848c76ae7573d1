"""What came back from the messaging service, before it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from fairlead_messaging.api import headers
from fairlead_wire.link import peer_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """Names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str | None:
        return self.headers.get(name.lower())

    @property
    def generation(self) -> int:
        """Of the topic it is about; 0: the service does not say it."""
        text = self.header(headers.GENERATION) or ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0

    def json(self, kind: type[T] | None) -> T:
        """The body as ``kind``.  Raises ``Malformed``, a ``RemoteError``, for a body of another shape."""
        shape: Any = kind
        decoded: T = peer_json.decode(_decoder(shape), self.body)
        return decoded


@lru_cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
