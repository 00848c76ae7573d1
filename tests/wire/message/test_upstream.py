"""Frames of messages for modules, and of statuses that nodes report."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec

ID = "0" * 31 + "7"
GOOD = message.Input(id=3, message=ID, module="camera", input="commands", ttl_seconds=5.0)


def test_a_message_and_the_question_for_it_travel() -> None:
    """Down both, and the answer up."""
    assert codec.decode_from_hub(codec.encode(GOOD, b"{}")) == (GOOD, b"{}")
    asked = message.AskInputs(id=4, messages=[ID])
    assert codec.decode_from_hub(codec.encode(asked)) == (asked, b"")
    states = message.InputStates(parent_id=4)
    assert codec.decode_from_edge(codec.encode(states, b"[]")) == (states, b"[]")


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": "A" * 32},
        {"message": ID + "\n"},
        {"module": ""},
        {"module": "../x"},
        {"module": "m" * 129},
        {"input": "a/b"},
        {"ttlSeconds": 0},
        {"ttlSeconds": -1.0},
        {"ttlSeconds": 604801},
        {"encoding": "gzip"},
    ],
)
def test_what_cannot_be_ends_before_it_is_used(wrong: dict[str, object]) -> None:
    """Names become a queue's name, and the time to live its end."""
    sent = {**msgspec.json.decode(msgspec.json.encode(GOOD)), **wrong}
    text = msgspec.json.encode(sent)
    frame = b"\x01" + len(text).to_bytes(4, "big") + text
    with pytest.raises(Malformed):
        codec.decode_from_hub(frame)


def test_a_question_is_bounded() -> None:
    """At least one message, at most so many."""
    for ids in ([], [ID] * (message.INPUT_STATES_MAX + 1)):
        with pytest.raises(Malformed):
            codec.decode_from_hub(codec.encode(message.AskInputs(id=1, messages=ids)))


def test_a_hello_of_before_says_that_it_takes_none() -> None:
    """And a hub of before reads one that says it does."""
    hello = message.Hello(node="n", agent="a", store_epoch=1, fence=0, bits=0, held=0, root="", inputs=True)
    text = msgspec.json.encode(hello)
    assert b'"inputs":true' in text
    before = msgspec.json.decode(text.replace(b',"inputs":true', b""), type=message.Hello)
    assert not before.inputs


def test_each_node_has_a_field_manager_that_kubernetes_takes() -> None:
    """Also with the longest names, that differ only at their ends."""
    assert message.field_manager("edge-1") == "fairlead-edge-edge-1"
    first, second = (message.field_manager("n" * 252 + end) for end in "ab")
    assert len(first) == len(second) == 128 and first != second


def test_the_stronger_of_two_counts() -> None:
    assert message.stronger("", "cluster") == message.stronger("cluster", "") == "cluster"
    assert message.stronger("all", "cluster") == "all"


@pytest.mark.parametrize("force", ["", "cluster", "all"])
def test_a_report_travels(force: message.Force) -> None:
    report = message.Report(id=1, resource="api/v1/nodes/n", uid="u", force=force)
    assert codec.decode_from_edge(codec.encode(report, b"{}")) == (report, b"{}")


def test_older_peers_say_nothing_of_it() -> None:
    """None of the rules, which is not the same as holding none."""
    hello = message.Hello(node="n", agent="1", store_epoch=1, fence=0, bits=0, held=0, root="")
    assert b"statusRules" not in msgspec.json.encode(hello)
    assert b'"statusRules":""' in msgspec.json.encode(msgspec.structs.replace(hello, status_rules=""))
