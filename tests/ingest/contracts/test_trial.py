"""What a contract would make of messages."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.contracts import trial
from fairlead_ingest.contracts.trial import Trial, Unknown
from fairlead_ingest.rows import contract_file
from fairlead_ingest.rows.envelope import TIMESTAMP


def play(contract: dict[str, Any], payloads: list[bytes]) -> trial.TrialOutcome:
    found = Trial(contract_file.parse(json.dumps(contract), "contract.json"))
    ids = pa.array([number.to_bytes(20, "big") for number in range(len(payloads))], pa.binary())
    moments = pa.array([1_795_176_000_000_000] * len(payloads), TIMESTAMP)
    found.play("a/t", ids, moments, pa.array(payloads, pa.binary()))
    return found.outcome()


def told(outcome: trial.TrialOutcome) -> list[tuple[str, str, str, int]]:
    return [(each.code, each.field, each.reason, each.messages) for each in outcome.wrong]


HOT = {"type": "double", "required": True, "maximum": 100}
BODIES: list[Any] = [{"t": 1.5}, {"t": 200, "x": 1}, {"t": 300}, {"x": "y"}, [1]]
MESSAGES = [upstream_message(number, body=body) for number, body in enumerate(BODIES)]


def test_messages_are_rows_or_dead_letters_with_what_is_wrong():
    outcome = play({"columns": {"t": HOT}}, [*MESSAGES, b"{", b'{"id": 5}'])
    assert (outcome.messages, outcome.fit, outcome.dead_letters, outcome.rescued) == (7, 1, 6, 0)
    assert told(outcome)[:3] == [
        ("misfit", "t", "above the maximum 100", 2),
        ("bad_field", "id", "", 1),
        ("bad_field", "node, epoch, stream, sequence, body", "missing", 1),
    ]
    assert ("not_json", "", "", 1) in told(outcome) and ("misfit", "", trial.NO_OBJECT, 1) in told(outcome)
    assert (outcome.wrong[0].example, outcome.wrong[0].example_id) == ("200", "1".zfill(40))
    assert not outcome.all_fit


def test_what_is_rescued_is_no_dead_letter_and_does_not_fit_either():
    outcome = play({"mode": "rescue", "columns": {"t": HOT}}, [*MESSAGES, b"{"])
    assert (outcome.fit, outcome.rescued, outcome.dead_letters) == (1, 4, 1)


def test_fields_without_a_column_are_named_with_a_type():
    """None for what was only ever null; names of the row's own columns, and twins of a column, stay in the body."""
    bodies = [{"t": 1, "n": 1, "x": None, "node": 1, "T": 1}, {"t": 1, "n": 1.5}]
    outcome = play({"columns": {"t": "double"}}, [upstream_message(n, body=body) for n, body in enumerate(bodies)])
    assert list(outcome.unknown) == [
        Unknown(name="n", type="double", messages=2),
        Unknown(name="x", type=None, messages=1),
    ]


NO_INT = "is not of type int, because of its decimal point"


def test_routes_are_counted_also_those_without_a_message():
    routes = [{"name": name, "source": f"/{name}", "columns": {name: "int"}} for name in ("doors", "engines")]
    message = {**json.loads(upstream_message(1, body={"doors": 1, "engines": "x"})), "source": "/doors"}
    outcome = play({"columns": {"t": "int"}, "routes": routes}, [json.dumps(message).encode(), MESSAGES[0], b"{"])
    assert outcome.routes == {"doors": 1, "engines": 0, "": 1}
    assert (outcome.fit, told(outcome)) == (1, [("misfit", "t", NO_INT, 1), ("not_json", "", "", 1)])


def test_what_devices_choose_is_bounded():
    bodies = [{f"field{number}": number} for number in range(trial.FIELDS_MAX + 20)]
    outcome = play({"columns": {"t": "int"}}, [upstream_message(n, body=body) for n, body in enumerate(bodies)])
    assert (len(outcome.unknown), outcome.untold) == (trial.FIELDS_MAX, 20)
    columns = {f"c{number}": "int" for number in range(trial.KINDS_MAX + 20)}
    long = [upstream_message(n, body={f"c{n}": "x" * 10_000}) for n in range(len(columns))]
    outcome = play({"columns": columns}, long)
    assert (len(outcome.wrong), outcome.untold, outcome.dead_letters) == (trial.KINDS_MAX, 20, len(columns))
    assert max(len(each.example) for each in outcome.wrong) == trial.EXAMPLE_CHARS_MAX


def test_nothing_played_is_nothing_wrong():
    assert play({"columns": {"t": "int"}}, []).all_fit
