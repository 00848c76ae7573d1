"""What a caller may send to a module's input."""

from __future__ import annotations

import base64

import msgspec
import pytest

from fairlead_hub.inputs import submission
from fairlead_hub.inputs.submission import Address, InputOutcomes, InputRefused, StoredInput
from fairlead_wire import message
from fairlead_wire.errors import Malformed

TO = Address(node="edge-1", uid="u", module="camera", input="commands")
ID = "0123456789abcdef" * 2


def kept(content: bytes, *, ttl: float = 60.0, now: float = 1000.0) -> StoredInput:
    [found] = submission.parse(content)
    return submission.kept(found, TO, id=ID, ttl=ttl, now=now, at="2026-11-23T10:00:00Z")


def test_a_message_is_kept_as_the_edge_stores_it() -> None:
    """A body is passed on as it was written; what JSON implies is said, unless the caller says otherwise."""
    found = kept(b'{"body": { "x" : 1.10 }, "properties": {"a": null}, "systemProperties": {"ContentType": "text/x"}}')
    stored = msgspec.json.decode(found.message)
    assert b'{ "x" : 1.10 }' in bytes(found.message)
    assert stored["id"] == ID and stored["source"] == "/fairlead/cloud" and stored["properties"] == {"a": None}
    assert stored["systemProperties"] == {"ContentType": "text/x", "contentEncoding": "utf-8"}
    assert found.expires == 1060.0
    assert submission.read(submission.encode(found), "edge-1") == found


def test_its_own_time_to_live_counts_before_that_of_the_request() -> None:
    """Bytes are passed on, too."""
    found = kept(b'{"bodyBase64": "AAE=", "ttl": 5}')
    assert found.expires == 1005.0 and msgspec.json.decode(found.message)["bodyBase64"] == "AAE="


def test_several_are_taken_all_or_none() -> None:
    """One that cannot be read refuses the request."""
    assert len(submission.parse(b'{"messages": [{"body": 1}, {"body": null}]}')) == 2
    with pytest.raises(InputRefused):
        submission.parse(b'{"messages": [{"body": 1}, {}]}')


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "bad_request"),
        (b"\xff", "bad_request"),
        (b"[]", "bad_request"),
        (b"{}", "bad_message"),
        (b'{"messages": []}', "bad_request"),
        (b'{"messages": {}}', "bad_request"),
        (b'{"messages": [{"body": 1}], "ttl": 1}', "bad_request"),
        (b'{"body": 1, "bodyBase64": ""}', "bad_message"),
        (b'{"bodyBase64": "="}', "bad_message"),
        (rb'{"body": 1, "properties": {"a": "\u0000"}}', "bad_message"),
        (rb'{"body": 1, "systemProperties": {"contentType": "\u0000"}}', "bad_message"),
        (rb'{"body": "\ud800"}', "bad_request"),
        (b'{"body": 1, "ttl": 0}', "bad_request"),
        (b'{"body": 1, "ttl": 604801}', "bad_request"),
        (b'{"body": 1, "ttl": 1e999}', "bad_request"),
        (b'{"body": 1, "properties": {"a": 1}}', "bad_request"),
        (b'{"body": 1, "source": "/messages"}', "bad_request"),
        (b'{"body": ' + b"[" * 300 + b"]" * 300 + b"}", "bad_request"),
        (b"[" * 100_000, "bad_request"),
        (b'{"messages": [' + b",".join([b'{"body":1}'] * 101) + b"]}", "too_large"),
        (b" " * (submission.REQUEST_BYTES_MAX + 1), "too_large"),
    ],
)
def test_what_cannot_be_is_refused_with_a_code(content: bytes, code: str) -> None:
    """And nothing of it is kept."""
    with pytest.raises(InputRefused) as refused:
        submission.parse(content)
    assert refused.value.code == code


def test_a_message_has_the_size_of_one_that_a_module_publishes() -> None:
    """256 KiB as stored."""
    with pytest.raises(InputRefused) as refused:
        kept(b'{"bodyBase64": "%b"}' % base64.b64encode(bytes(200 * 1024)))
    assert refused.value.code == "too_large"
    assert kept(b'{"bodyBase64": "%b"}' % base64.b64encode(bytes(190 * 1024)))


def test_a_key_names_the_same_messages_again() -> None:
    """Of the same input alone; without one each is new."""
    counted = iter(range(100))

    def ids(key: str | None, *, input: str = "commands", count: int = 2) -> list[str]:
        return submission.ids("edge-1", "camera", input, key, count, lambda: f"{next(counted):032x}")

    assert ids("k") == ids("k") != ids("other") and ids("k") != ids("k", input="x")
    assert len(set(ids("k", count=100))) == 100 and ids(None) != ids(None)
    for key in ("", "x" * 256, "a\nb"):
        with pytest.raises(InputRefused):
            ids(key)


@pytest.mark.parametrize("name", ["", ".", "a/b", "a b", "é", "a\n", "m" * 129, "%2e"])
def test_names_that_could_be_paths_are_refused(name: str) -> None:
    """They become a queue's name on the node."""
    with pytest.raises(InputRefused):
        submission.check_names(name, "i")
    with pytest.raises(InputRefused):
        submission.check_names("m", name)
    submission.check_names("Camera.2_x-y", "0")


def test_what_no_hub_wrote_is_not_delivered() -> None:
    """Others may write into the topic."""
    good = submission.encode(kept(b'{"body":1}'))
    for payload in (b"", b"{}", b"\xff", good.replace(b"camera", b"../etc"), b" " * (message.INPUT_BYTES_MAX + 2000)):
        with pytest.raises(Malformed):
            submission.read(payload, "edge-1")
    with pytest.raises(Malformed):
        submission.read(good, "edge-2")


def test_the_newest_counts_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that was noted again is young again."""
    monkeypatch.setattr(submission, "KEPT_MAX", 2)
    kept = InputOutcomes()
    kept.note("n", "a", "delivered")
    kept.note("n", "b", "refused", "why")
    kept.note("n", "a", "consumed")
    kept.note("n", "c", "expired")
    assert kept.of("n", "a") == ("consumed", "") and kept.of("n", "b") is None
    assert kept.of("m", "a") is None
