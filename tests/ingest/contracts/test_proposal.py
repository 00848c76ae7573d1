"""A contract from messages."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.contracts.proposal import SOURCES_MAX, Proposal
from fairlead_ingest.contracts.trial import Trial
from fairlead_ingest.rows import contract_file
from fairlead_ingest.rows.contract import SHARED, Contract
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.rows.rules import ColumnRule


def message(body: Any, source: str | None = None) -> bytes:
    return json.dumps({**json.loads(upstream_message(1, body=body)), "source": source}).encode()


def page(payloads: list[bytes]) -> tuple[pa.Array, pa.Array, pa.Array]:
    ids = pa.array([number.to_bytes(20, "big") for number in range(len(payloads))], pa.binary())
    return ids, pa.array([1_795_176_000_000_000] * len(payloads), TIMESTAMP), pa.array(payloads, pa.binary())


def proposed(payloads: list[bytes]) -> Contract:
    proposal = Proposal()
    proposal.learn("a/t", *page(payloads))
    return contract_file.parse(proposal.text("found", "from a test"), "found.toml")


def test_what_every_message_has_is_required():
    contract = proposed([message({"t": 1.5, "x": "a", "node": 1, "_a": 1}), message({"t": 2, "x": None}), b"{"])
    assert (contract.name, contract.version, contract.mode) == ("found", 1, "freeze")
    assert contract.columns.simpleString() == "struct<t:double,x:string>"
    assert contract.rules == {"t": ColumnRule(required=True)}


def test_a_text_column_says_which_values_are_not_numbers():
    """One bad value makes it text; a range alone would look as if all were numbers."""
    proposal = Proposal()
    proposal.learn("a/t", *page([message({"amount": each, "n": 1}) for each in (0.25, "NaN\u2028", 999.25, None)]))
    text = proposal.text("n", "x")
    assert r'amount = "string"  # 2 of 3 are numbers; others, for example, "NaN\u2028"' in text
    assert "  # 1 to 1" in text


def test_a_name_that_has_to_be_quoted_is_a_column_and_the_others_are_named():
    """Headings of a CSV: with spaces and brackets; with the mark that Excel writes first, no table can have it."""
    body = {"Duration (min)": 5, "Straße 😀": "a", "ok": 1, "\ufeffTrip ID": 7, "a.b": 1, "\x1b[2J": 1, "node": 2}
    proposal = Proposal()
    proposal.learn("a/t", *page([message(body)]))
    text = proposal.text("n", "x")
    assert text.isascii()
    contract = contract_file.parse(text, "n.toml")
    assert contract.columns.names == ["Duration (min)", "Straße 😀", "ok"]
    [comment] = [line for line in text.splitlines() if line.startswith("# Fields without a column")]
    assert all(name in comment for name in (r"\ufeffTrip ID", "a.b", r"\u001b[2J", "node"))
    trial = Trial(contract)
    trial.play("a/t", *page([message(body)]))
    assert trial.outcome().all_fit


def test_sources_that_differ_are_routes():
    contract = proposed(
        [
            message({"t": 1, "open": True}, "/messages/modules/door/outputs/out"),
            message({"t": 2, "rpm": 5}, "/messages/modules/engine/outputs/out"),
            message({"t": 2}, "/messages/modules/engine/outputs/out"),
        ]
    )
    assert [(each.name, each.source) for each in contract.routes] == [
        ("door-out", "/messages/modules/door/outputs/out"),
        ("engine-out", "/messages/modules/engine/outputs/out"),
    ]
    assert contract.columns_of(SHARED).names == ["t"]
    assert contract.routes[0].rules == {"open": ColumnRule(required=True)} and not contract.routes[1].rules


def test_as_many_sources_as_devices_are_no_routes():
    contract = proposed([message({f"f{n % 3}": n}, f"/{n}") for n in range(SOURCES_MAX * 3)])
    assert not contract.routes
    assert contract.columns.names == ["f0", "f1", "f2"]


def test_bodies_without_fields_leave_a_contract_that_may_grow():
    assert proposed([message({})]).mode == "evolve"


@pytest.mark.parametrize("name", ["\x7f", '"', "\\", "\n", "\x1b[2J", "é"])
def test_odd_sources_are_quoted(name):
    """No reader of the file sees a character that it would obey."""
    payloads = [message({"a": 1}, f"/{name}"), message({"b": 1}, "/other")]
    proposal = Proposal()
    proposal.learn("a/t", *page(payloads))
    text = proposal.text("n", "x")
    assert text.replace("\n", "").isprintable() and text.isascii()
    assert contract_file.parse(text, "c.toml").routes[0].source == f"/{name}"


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
        st.sampled_from(["2026-11-22", "2026-11-22T10:00:00Z", "2026-02-30", "12:30", "aGk="]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abAB1"), inner, max_size=3),
    max_leaves=6,
)
BODIES = st.dictionaries(st.sampled_from(["a", "b", "A", "c", "node", "x y", "_z"]), VALUES, max_size=4)
SOURCES = st.sampled_from([None, "/messages/modules/a/outputs/o", "/b", "/b*", ""])


@pytest.mark.slow
@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.lists(st.tuples(BODIES, SOURCES), min_size=1, max_size=6))
def test_messages_fit_the_contract_proposed_from_them(said):
    payloads = [message(body, source) for body, source in said]
    found = Trial(proposed(payloads))
    found.play("a/t", *page(payloads))
    outcome = found.outcome()
    assert outcome.all_fit, outcome.wrong
