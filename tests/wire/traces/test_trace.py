"""What is a trace context and what is none; nothing a peer sends is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.spans import place

from fairlead_wire.traces import span_names, trace
from fairlead_wire.traces.trace import Sampler, Trace

EXAMPLE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HEX = "0123456789abcdef"


def test_the_standards_own_example_comes_back_as_it_was() -> None:
    found = trace.parse(EXAMPLE)
    assert found == Trace("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", True)
    assert str(found) == EXAMPLE


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        EXAMPLE + "-00",
        EXAMPLE.upper(),
        EXAMPLE.replace("00-4", "01-4"),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        EXAMPLE.replace("-", "_"),
        EXAMPLE.replace("4", "٤"),
        EXAMPLE[:-1] + "\n",
    ],
)
def test_what_is_no_trace_context_counts_as_none(text: str | None) -> None:
    assert trace.parse(text) is None


@given(st.text(max_size=80))
def test_no_text_is_an_error(text: str) -> None:
    found = trace.parse(text)
    assert found is None or len(text) == trace.CHARS


@given(st.text(HEX, min_size=32, max_size=32), st.text(HEX, min_size=16, max_size=16), st.booleans())
def test_what_is_written_is_read(trace_id: str, span_id: str, sampled: bool) -> None:
    written = Trace(trace_id, span_id, sampled)
    is_nothing = not trace_id.strip("0") or not span_id.strip("0")
    assert trace.parse(str(written)) == (None if is_nothing else written)


def test_only_the_lowest_flag_counts() -> None:
    assert trace.sampled(EXAMPLE[:-2] + "03") is not None
    assert trace.parse(EXAMPLE[:-2] + "02") is not None and trace.sampled(EXAMPLE[:-2] + "02") is None


def test_each_trace_counts_once_and_the_earliest_stay() -> None:
    first = place(1)
    again = Trace(first.trace_id, place(2).span_id)
    assert trace.distinct([first, again, place(3)]) == [first, place(3)]
    assert trace.distinct([place(number) for number in range(1, 100)])[-1] == place(trace.LINKS_MAX)


@pytest.mark.parametrize(("text", "carried"), [("a=1,b=2", True), ("x" * 513, False), ("a\n", False), (None, False)])
def test_vendors_additions_are_bounded(text: str | None, carried: bool) -> None:
    assert bool(trace.check_tracestate(text)) == carried


# ---- who decides what is recorded ----


def sampler(*, ratio: float = 0.0, ceiling: float = 10.0, drawn: float = 0.5) -> Sampler:
    return Sampler(ratio=ratio, ceiling_per_second=ceiling, uniform=lambda: drawn)


def test_what_comes_with_nothing_is_recorded_by_ratio() -> None:
    assert not sampler().samples_incoming(None, 0.0)
    assert sampler(ratio=0.6).samples_incoming(None, 0.0)
    assert not sampler(ratio=0.5).samples_incoming(None, 0.0)
    assert sampler(ratio=1.0, drawn=0.9999).samples_incoming(None, 0.0)


def test_who_began_the_trace_decides() -> None:
    assert sampler().samples_incoming(place(1), 0.0)
    assert not sampler(ratio=1.0).samples_incoming(place(1, sampled=False), 0.0)


def test_no_client_gets_more_than_the_ceiling() -> None:
    one = sampler(ceiling=3.0)
    assert [one.samples_incoming(place(1), 0.0) for _ in range(5)] == [True] * 3 + [False] * 2
    assert one.over_ceiling == 2
    assert one.samples_incoming(place(1), 0.4), "a third of a second later there is one more"
    assert not one.samples_incoming(place(1), 0.4)
    assert [one.samples_incoming(place(1), 100.0) for _ in range(4)] == [True] * 3 + [False], (
        "a long pause saves up no more"
    )


def test_what_arrives_takes_nothing_from_what_goes_on() -> None:
    one = sampler(ceiling=1.0)
    assert one.samples_incoming(place(1), 0.0) and one.admits_continued(0.0)
    assert not one.samples_incoming(place(1), 0.0) and not one.admits_continued(0.0)


def test_a_ceiling_of_zero_records_nothing_and_one_below_one_a_second_records_some() -> None:
    assert not sampler(ratio=1.0, ceiling=0.0).samples_incoming(None, 0.0)
    slow = sampler(ceiling=0.1)
    assert [slow.samples_incoming(place(1), now) for now in (0.0, 5.0, 10.1)] == [True, False, True]


def test_a_clock_that_steps_back_gives_nothing() -> None:
    one = sampler(ceiling=1.0)
    assert one.samples_incoming(place(1), 10.0)
    assert not one.samples_incoming(place(1), 5.0)
    assert one.samples_incoming(place(1), 6.0)


# ---- names without ids, attributes with them ----


def test_what_is_not_known_is_left_out() -> None:
    assert span_names.of_messages(3, operation="send") == {
        "messaging.system": "fairlead",
        "messaging.operation.type": "send",
        "messaging.batch.message_count": 3,
    }
    found = span_names.of_messages(1, "default/t", operation="receive", node="edge-1", stream="iothub")
    assert found["messaging.destination.name"] == "default/t"
    assert (found[span_names.NODE], found[span_names.STREAM]) == ("edge-1", "iothub")
