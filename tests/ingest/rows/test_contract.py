"""How a contract reaches the tasks, and which messages a route takes."""

from __future__ import annotations

import pytest

from fairlead_ingest.rows import contract_file
from fairlead_ingest.rows.contract import (
    MISFIT,
    NOTHING_KNOWN,
    REMEMBERED_MAX,
    SHARED,
    RowRoute,
    RowRouter,
    decode_contract,
    grown,
    matches,
    misfit,
    misfits,
    readable,
    wrong_text,
)


def test_a_contract_grows_by_what_the_table_has():
    """But for the row's own columns and those it has itself, in any case of letters."""
    contract = contract_file.parse('{"mode": "evolve", "columns": {"Temp": "double"}}', "s")
    held = contract_file.parse("temp STRING, extra BOOLEAN", "s").columns.add("_batch", "long").add("node", "string")
    assert grown(contract, held).columns.simpleString() == "struct<Temp:double,extra:boolean>"


def test_a_misfit_is_named_where_the_body_has_fields():
    assert misfits("[1]", {"a"}) == misfits(None, {"a"}) == []
    body, empty = '{"a": "x", "b": null, "c": 1, "unknown": 1}', {"a", "b"}
    assert misfits(body, empty) == ["a"]


def test_a_contract_travels_as_text():
    contract = contract_file.parse('{"mode": "evolve", "decimals": "round", "columns": {"a": "decimal(9,2)"}}', "s")
    assert decode_contract(contract.encode()) == contract


def test_what_was_wrong_travels_in_the_error():
    judge = contract_file.parse(
        '{"name": "n", "version": 2, "columns": {"a": {"type": "int", "minimum": 0}, "b": "int"}}', "s"
    ).judge()
    verdict = judge.judge(b'{"a": -1, "b": "x"}')
    error = f"{MISFIT} n version 2 {wrong_text(verdict)}" + '{"a":\n[-1'
    told = misfit(error, None, ())
    assert told == (
        'body does not fit the contract n version 2 at "a" (below the minimum 0), "b" (is not of type int): {"a":\n[-1',
        ["a", "b"],
    )


def test_what_spark_alone_refused_is_found_by_its_empty_columns():
    error = f"{MISFIT} {NOTHING_KNOWN}" + '{"a": "x"}'
    told = misfit(error, '{"a": "x"}', {"a"})
    assert told == ('body does not fit the contract at "a": {"a": "x"}', ["a"])
    assert misfit(f"{MISFIT} {NOTHING_KNOWN}5", "5", {"a"}) == (
        "body does not fit the contract: 5",
        [],
    )


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ('{"city": "\\u5317\\u4eac", "e": "\\u00e9"}', '{"city": "北京", "e": "é"}'),
        ("\\ud83d\\ude00 \\ud83d \\ude00", "😀 \\ud83d \\ude00"),
        ("\\\\u5317 \\u000a \\u0022 \\u202e \\ufffd \\n \\u53", "\\\\u5317 \\u000a \\u0022 \\u202e \\ufffd \\n \\u53"),
    ],
)
def test_letters_that_a_sender_escaped_are_shown(shown, expected):
    assert readable(shown) == expected


def test_the_words_of_a_transform_stay_its_own():
    assert misfit("too hot", "{}", ()) is None
    for words in (f"{MISFIT}: mine", f"{MISFIT} [x\nmine"):
        assert misfit(words, "{}", ("a",)) == (words, ())


DOORS = RowRoute(name="doors", source="/messages/modules/door/*")
NORTH = RowRoute(name="north", topic="north/*")
LOUD = RowRoute(name="loud", properties={"level": "high", "kind": "alarm"})


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("*", "", True),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("*/door/*", "/m/door/o", True),
        ("*b*b*", "b", False),
        ("[a]?", "a1", False),
    ],
)
def test_a_star_stands_for_anything(pattern, text, expected):
    assert matches(pattern, text) is expected


def test_a_long_source_costs_no_time():
    assert not matches("*a" * 50 + "*b", "a" * 1_000_000)


def test_the_first_route_that_takes_a_message_has_it():
    router = RowRouter([DOORS, NORTH])
    asked = [("north/t", "/messages/modules/door/o"), ("north/t", None), ("south/t", "/messages/modules/engine/o")]
    assert [router.route(topic, source, None) for topic, source in asked] == [0, 1, SHARED]
    assert [router.route(topic, source, None) for topic, source in asked] == [0, 1, SHARED]


def test_all_properties_of_a_route_must_be_as_it_says():
    router = RowRouter([LOUD])
    texts = [
        '{"level": "high", "kind": "alarm", "more": 1}',
        '{"level": "high"}',
        '{"level": "high", "kind": 5}',
        None,
        "[",
    ]
    assert [router.route("a/t", None, text) for text in texts] == [0, *[SHARED] * 4]


def test_sources_without_end_are_not_remembered():
    router = RowRouter([DOORS])
    for number in range(REMEMBERED_MAX + 10):
        assert router.route("a/t", f"/{number}", None) == SHARED
    assert len(router._remembered) <= REMEMBERED_MAX
