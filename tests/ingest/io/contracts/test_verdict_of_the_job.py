"""What `fairlead ingest check` says of messages is what the job makes of them."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.ingest.rows.test_fitting import FITS, MISFITS
from tests.support.topics import hostile_messages as hostile
from tests.support.topics.messaging_service import upstream_message

from fairlead_ingest.contracts import trial
from fairlead_ingest.io import contracts
from fairlead_ingest.io.table import tables
from fairlead_ingest.rows import envelope
from fairlead_messaging.client.io.sync_client import BulkClient

TYPES = list(dict.fromkeys([*FITS, *MISFITS]))
DAYS = ["2026-11-22", "2026-1-5", "2026-02-29", "2024-02-29", "2026-04-31", "0001-01-01", "9999-12-31", "2026-13-01"]
CLOCKS = ["", "T10:00", " 1:2", "T23:59:59", "T24:00", "T10:00:60", "T1:2:3", "T10:00:00.5", "T10:00:00.1234560", "T10"]
ZONES = ["", "Z", " Z", "z", "+01:00", "+1", "+0130", "-18:00", "+18:01", "+1:2:3", " UTC", "UTC+1", "GMT-1:5", "utc",
         " Europe/Paris", " Europe/Nowhere", " PST", " ROC", " SystemV/EST5", "+01:60", "-1:30"]  # fmt: skip
BASE64 = [
    "aGk=",
    "aGk",
    " aGk=",
    "aG k=",
    "aGk=\n",
    "YW==",
    "YW=",
    "====",
    "=",
    "",
    "a-_k",
    "YWJj\r\nYWJj",
    "a",
    "aGk=YW==",
]
PARTS = ["1", "-1", "0.1", "1e400", "1e-400", "true", "null", '"x"', '""', "[]", "{}", "[1,null]", '{"a":1,"a":2}',
         "123456789012345678901", '"\\ud83d\\ude00"', '"\\ud800"', '"2026-11-22"', "1700000000"]  # fmt: skip


def bodies() -> Iterator[str]:
    """As JSON text: values that columns hold or do not, moments, encoded bytes, and anything in any column."""
    for number, name in enumerate(TYPES):
        for value in (*FITS.get(name, ()), *MISFITS.get(name, ())):
            yield f'{{"v{number}": {value}, "n": 1, "text": ""}}'
    for day, clock, zone in itertools.product(DAYS, CLOCKS, ZONES):
        moment, wall = json.dumps(day + clock + zone), json.dumps(day + clock)
        yield f'{{"n": 2, "text": "x", "at": {moment}, "days": [{json.dumps(day)}, null], "wall": {wall}}}'
    for text in BASE64:
        yield json.dumps({"n": 3, "raw": text, "inner": {"raw": text}})
    yield from (
        "null",
        "5",
        '"x"',
        "[1]",
        "[]",
        "{}",
        '[{"n": 1}]',
        '{"n": 1, "n": 300}',
        '{"n": 300, "n": 1}',
        '{"N": 1}',
    )
    yield f'{{"n": 1, "long": {"9" * 3000}}}'
    yield f'{{"n": 1, "{"x" * 60_000}": 1}}'
    yield f'{{"n": 1, "wide": {{"{"x" * 60_000}": 1}}}}'
    yield f'{{"n": 1, "text": "{"x" * 100_000}", "price": 1.{"0" * 2000}}}'
    chance = random.Random(5)
    names = ["n", "at", "level", "text", "wide", "price", "door", "rpm", "unknown"]
    for _ in range(3000):
        fields = [f'"{chance.choice(names)}":{chance.choice(PARTS)}' for _ in range(chance.randint(0, 2))]
        known = ['"n":1', '"text":"x"'] if chance.random() < 0.8 else []
        yield f"{{{','.join([*known, *fields])}}}"


def payloads() -> Iterator[bytes]:
    """The bodies from several sources, and payloads that are no message, or hardly."""
    plain = json.loads(upstream_message(1, body={}))
    sources = itertools.cycle([None, "/messages/modules/door/outputs/o", "/messages/modules/engine/outputs/o"])
    for number, body in enumerate(bodies()):
        given = {"source": next(sources), "sequence": number, "properties": {"kind": "loud"} if number % 5 else None}
        text = json.dumps({**plain, **given, "body": None})
        yield text.replace('"body": null', f'"body": {body}').encode()
    yield from hostile.messages(21, 1000)


CONTRACT = {
    "name": "everything",
    "version": 7,
    "columns": {
        **{f"v{number}": name for number, name in enumerate(TYPES)},
        "n": {"type": "tinyint", "required": True, "minimum": 0},
        "at": "timestamp",
        "wall": "timestamp_ntz",
        "days": "array<date>",
        "raw": "binary",
        "inner": "struct<raw:binary,at:timestamp>",
        "text": "string",
        "level": {"type": "string", "enum": ["x", "5", ""]},
        "wide": "map<string,double>",
        "price": {"type": "decimal(9,2)", "minimum": -0.5, "maximum": 100},
    },
    "routes": [
        {"name": "doors", "source": "*/door/*", "columns": {
            "door": "boolean", "text": {"type": "string", "required": True}}},
        {"name": "loud", "properties": {"kind": "loud"}, "columns": {"rpm": {"type": "double", "maximum": 1}}},
    ],
}  # fmt: skip


@pytest.mark.verify
def test_the_check_and_the_job_say_the_same(run, messaging, topic, tmp_path):
    """Message for message: row or dead letter, with the same code and fields; rows hold no column of another route."""
    path = tmp_path / "contract.json"
    path.write_text(json.dumps(CONTRACT))
    messaging.publish(topic, list(payloads()))
    run(schema=str(path))
    contract = contracts.read(path)
    judge, played = contract.judge(), trial.Trial(contract)
    said: dict[str, tuple[str, list[str]]] = {}
    with BulkClient(messaging.url) as client:
        for page in contracts.pages(client, contracts.stretch(client, topic)):
            known = (page["id"], page["ts"], page["payload"])
            played.play(topic, *known)
            for letter in trial.dead_letters(envelope.page(topic, *known, judge=judge), contract):
                said[letter.id] = (letter.code, list(letter.fields))
    found = tables.existing(tables.of("delta"), tmp_path / "rows_dead_letters").to_table()
    letters = {row["_id"]: (row["code"], row["fields"], row["error"]) for row in found.to_pylist()}
    assert {name: letter[:2] for name, letter in letters.items()} == said
    rows = tables.existing(tables.of("delta"), tmp_path / "rows").to_table(
        columns=["_id", "source", "door", "rpm", "n"]
    )
    outcome = played.outcome()
    assert (rows.num_rows, len(letters)) == (outcome.fit, outcome.dead_letters)
    assert outcome.fit > 500 and outcome.dead_letters > 500
    assert any('everything version 7 at "n" (required)' in letter[2] for letter in letters.values())
    [newest, *_] = tables.of("delta").last_entries(tmp_path / "rows", 1)
    assert newest.info is not None
    assert [(each.name, each.version, each.batch) for each in newest.info.totals.contracts] == [("everything", 7, 0)]
    plain: list[dict[str, Any]] = rows.to_pylist()
    assert all(row["door"] is None for row in plain if row["source"] is None or "/door/" not in row["source"])
    assert any(row["door"] is not None for row in plain) and any(row["rpm"] is not None for row in plain)
