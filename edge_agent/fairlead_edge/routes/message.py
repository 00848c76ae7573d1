"""A message as routes see it: case-insensitive properties, and a body that is parsed once, on first use."""

from __future__ import annotations

import codecs
from collections.abc import Mapping

import msgspec

from fairlead_edge.routes.values import Value

JSON_CONTENT_TYPE = "application/json"
ENCODINGS = ("utf-8", "utf-16", "utf-32")
_BYTE_ORDER_MARKS = {
    "utf-8": (codecs.BOM_UTF8,),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
_WITHOUT_MARK = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_WITH_MARK = {"utf-8": "utf-8-sig", "utf-16": "utf-16", "utf-32": "utf-32"}


class RoutedMessage:
    """Properties (text or None), system properties, and the body as bytes, or as text that is already decoded.

    Names are case-insensitive; of two that differ only in case, the last one counts.
    """

    __slots__ = ("_document", "_problem", "_read", "body", "found", "properties", "system_properties")

    def __init__(
        self,
        properties: Mapping[str, str | None],
        system_properties: Mapping[str, str | None],
        body: bytes | str = b"",
    ) -> None:
        self.properties = {name.lower(): value for name, value in properties.items()}
        self.system_properties = {name.lower(): value for name, value in system_properties.items()}
        self.body = body
        self.found: dict[str, Value] = {}
        """Values by body path, so that many routes with the same path look it up only once."""
        self._read = False
        self._document: dict[str, object] | None = None
        self._problem = ""

    @property
    def document(self) -> dict[str, object] | None:
        """The body if conditions can read it; otherwise None, and `problem` says why."""
        if not self._read:
            self._read = True
            try:
                self._document = self._parse()
            except ValueError as reason:
                self._problem = str(reason)
        return self._document

    @property
    def problem(self) -> str:
        """Why conditions cannot read the body; empty if they can."""
        return "" if self.document is not None else self._problem

    def _parse(self) -> dict[str, object]:
        content_type = self.system_properties.get("contenttype")
        if content_type is None:
            raise ValueError("contentType is missing; it must be application/json")
        if content_type.lower() != JSON_CONTENT_TYPE:
            raise ValueError(f"contentType is {content_type!r}; it must be application/json")
        encoding = self.system_properties.get("contentencoding")
        if encoding is None:
            raise ValueError("contentEncoding is missing; it must be utf-8, utf-16 or utf-32")
        if encoding.lower() not in ENCODINGS:
            raise ValueError(f"contentEncoding is {encoding!r}; it must be utf-8, utf-16 or utf-32")
        try:
            document = msgspec.json.decode(_text(self.body, encoding.lower()))
        except UnicodeDecodeError:
            raise ValueError(f"the body is not {encoding.lower()}") from None
        except msgspec.DecodeError as reason:
            raise ValueError(f"the body is not JSON: {reason}") from None
        except RecursionError:
            raise ValueError("the body is nested too deeply") from None
        if not isinstance(document, dict):
            raise ValueError("the body is JSON, but not an object")
        return document


def _text(body: bytes | str, encoding: str) -> bytes | str:
    """The body as input for a JSON parser; UTF-16 without a byte order mark is little-endian."""
    if isinstance(body, str):
        return body
    marked = body.startswith(_BYTE_ORDER_MARKS[encoding])
    if encoding == "utf-8" and not marked:
        return body
    return body.decode((_WITH_MARK if marked else _WITHOUT_MARK)[encoding])
