"""Bodies: when they can be read, and the reason when not."""

from __future__ import annotations

import json

import pytest

from fairlead_edge.routes.message import RoutedMessage

DOCUMENT = {"a": "é"}
TEXT = json.dumps(DOCUMENT, ensure_ascii=False)


@pytest.mark.parametrize(
    ("encoding", "raw"),
    [
        ("utf-8", TEXT.encode()),
        ("UTF-8", TEXT.encode("utf-8-sig")),
        ("utf-16", TEXT.encode("utf-16")),
        ("UtF-16", TEXT.encode("utf-16-le")),
        ("utf-16", b"\xfe\xff" + TEXT.encode("utf-16-be")),
        ("utf-32", TEXT.encode("utf-32")),
        ("utf-32", TEXT.encode("utf-32-le")),
        ("utf-16", TEXT),
    ],
)
def test_encodings(encoding: str, raw: bytes | str) -> None:
    message = RoutedMessage({}, {"CONTENTTYPE": "Application/JSON", "contentEncoding": encoding}, raw)
    assert (message.document, message.problem) == (DOCUMENT, "")


@pytest.mark.parametrize(
    ("system", "body", "problem"),
    [
        ({}, b"{}", "contentType is missing; it must be application/json"),
        ({"contentType": None}, b"{}", "contentType is missing"),
        ({"contentType": "text/plain", "contentEncoding": "utf-8"}, b"{}", "contentType is 'text/plain'"),
        ({"contentType": "application/json"}, b"{}", "contentEncoding is missing"),
        ({"contentType": "application/json", "contentEncoding": "utf-7"}, b"{}", "contentEncoding is 'utf-7'"),
        ({"contentType": "application/json", "contentEncoding": "utf-8"}, b"\xff", "the body is not"),
        ({"contentType": "application/json", "contentEncoding": "utf-16"}, b"{", "the body is not utf-16"),
        ({"contentType": "application/json", "contentEncoding": "utf-8"}, b"", "the body is not JSON"),
        ({"contentType": "application/json", "contentEncoding": "utf-8"}, b"{a:1}", "the body is not JSON"),
        (
            {"contentType": "application/json", "contentEncoding": "utf-8"},
            b"[1]",
            "the body is JSON, but not an object",
        ),
        ({"contentType": "application/json", "contentEncoding": "utf-8"}, b"[" * 200_000, "the body is"),
    ],
)
def test_the_reason_why_not(system: dict[str, str | None], body: bytes, problem: str) -> None:
    """Explained in a sentence, never raised."""
    message = RoutedMessage({}, system, body)
    assert message.document is None
    assert message.problem.startswith(problem)


def test_the_body_is_parsed_once() -> None:
    message = RoutedMessage({}, {"contentType": "application/json", "contentEncoding": "utf-8"}, b'{"a": 1}')
    assert message.document is message.document


def test_names_in_any_case() -> None:
    message = RoutedMessage({"A": "1", "a": "2"}, {"ContentType": None})
    assert (message.properties, message.system_properties) == ({"a": "2"}, {"contenttype": None})
