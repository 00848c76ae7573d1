"""What is said of a JSON body that cannot be read."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from fairlead_wire.validation import json_body


class Body(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    properties: dict[str, str | None] = {}
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body_base64: Annotated[str, msgspec.Meta(max_length=4)] | msgspec.UnsetType = msgspec.UNSET
    messages: list[msgspec.Raw] = []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (b'{"messages": [{"body": 1}', "the JSON ends too early: a closing quote, bracket or brace is missing"),
        (b'{"boddy": 1', "the JSON ends too early: a closing quote, bracket or brace is missing"),
        (b"{'a': 1}", "not JSON: object keys must be strings (byte 1)"),
        (b"[]", "must be keys and values, is []"),
        (b'{"message": []}', "message: unknown key; did you mean messages?"),
        (b'{"boddy": 1}', "boddy: unknown key; did you mean body?"),
        (b'{"properties": {"a": 1}, "body": [2]}', "properties.a: must be text, is 1"),
        (b'{"bodyBase64": 5, "body": 1}', "bodyBase64: must be text of at most 4 characters, is 5"),
        (b'{"messages": {"a": 1}}', "messages: must be a list, is {'a': 1}"),
    ],
)
def test_it_names_the_key_and_what_was_probably_meant(content: bytes, said: str) -> None:
    with pytest.raises(msgspec.DecodeError) as refused:
        msgspec.json.decode(content, type=Body)
    assert json_body.reason_of(content, Body, refused.value) == said


def test_a_large_or_deep_body_is_not_read_again() -> None:
    """It could cost more memory than the device has."""
    large = b'{"boddy": [' + b"[]," * json_body.READ_AGAIN_BYTES_MAX + b"[]]}"
    said = "Object contains unknown field `boddy`"
    assert json_body.reason_of(large, Body, msgspec.ValidationError(said)) == said
    assert json_body.reason_of(b"[" * 60_000, Body, RecursionError("too deep")) == "too deep"


def test_there_are_a_few_mistakes_at_most() -> None:
    many = msgspec.json.encode({f"x{number}": 1 for number in range(100)})
    assert json_body.reason_of(many, Body, msgspec.ValidationError("")).count("unknown key") == json_body.MISTAKES_MAX
