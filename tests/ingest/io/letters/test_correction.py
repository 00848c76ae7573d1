"""Corrections of dead letters by a function or a file, and judging the results without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.support.tables.letters_world import TOPIC, moment, name, payload

from fairlead_cli.main import build
from fairlead_ingest import errors
from fairlead_ingest.io.letters.correction import ByFile, ByFunction, PlainJudge, Rejudged, Unrepaired, needs_spark
from fairlead_ingest.io.sink import task_writer
from fairlead_ingest.rows.envelope import TIMESTAMP
from fairlead_ingest.settings import Pipeline
from fairlead_wire.errors import LocalError

LETTER: dict[str, Any] = {
    "_topic": "n/a", "_id": "0a", "code": "misfit", "fields": None, "error": "e", "payload": b"old",
}  # fmt: skip


def by(folder: Path, body: str) -> ByFunction:
    path = folder / "mending.py"
    path.write_text(f"def mend(letter):\n    {body}\n")
    return ByFunction(f"{path}:mend")


def test_unchanged_is_what_it_was():
    assert Rejudged().payload(LETTER) == b"old"
    assert Rejudged().payload({**LETTER, "payload": None}) == b""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return letter['payload'] + b'!'", b"old!"),
        ("return letter['topic'] + letter['id'] + str(letter['fields'])", b"n/a0a[]"),
        ("return {'a': 1.5}", b'{"a":1.5}'),
        ("return None", None),
    ],
)
def test_a_function_gives_bytes_text_a_dict_or_nothing(tmp_path, body, expected):
    correction = by(tmp_path, body)
    assert correction.payload(LETTER) == expected
    assert correction.method == "function mending.py:mend"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import sys; sys.exit(3)", r"mending.py:mend called sys.exit\(3\); for the payload b'old'$"),
        ("return 7", r"mending.py:mend returned int \(7\); it must return bytes"),
        ("import json; json.loads(letter['payload'])", "JSONDecodeError: .*; for the payload b'old'$"),
        ("raise ValueError('no')", "ValueError: no"),
        ("return {1j: 2}", "TypeError"),
        (
            "return {'body': {'v': float('nan')}}",
            "mending.py:mend returned NaN at body.v, which is not JSON; return None or a number$",
        ),
    ],
)
def test_a_function_that_fails_costs_its_own_letter(tmp_path, body, reason):
    with pytest.raises(Unrepaired, match=reason):
        by(tmp_path, body).payload(LETTER)


def test_what_a_function_prints_is_not_in_the_output(tmp_path, capsys):
    """Standard output is the command's own, for example as JSON."""
    assert by(tmp_path, "print('look'); return b'new'").payload(LETTER) == b"new"
    assert capsys.readouterr() == ("", "look\n")


def test_a_program_instead_of_a_function_is_explained(tmp_path):
    """It is imported: what it does at its top, such as reading standard input, fails there."""
    (tmp_path / "program.py").write_text("import json\njson.loads('')\n")
    with pytest.raises(errors.Stop, match=r"importing .*program.py raised JSONDecodeError: .*imported as a module"):
        ByFunction(f"{tmp_path}/program.py:mend")
    (tmp_path / "exits.py").write_text("import sys\nprint('usage')\nsys.exit(2)\n")
    with pytest.raises(errors.Stop, match=r"exits.py:mend: called sys.exit\(2\) when it was imported"):
        ByFunction(f"{tmp_path}/exits.py:mend")


def test_the_example_of_the_help_works(tmp_path):
    text = CliRunner().invoke(build(), ["ingest", "repair", "--help"]).output
    lines = text[text.index("  # mend.py") :].split("\n\n")[0].splitlines()
    (tmp_path / "mend.py").write_text("\n".join(line[2:] for line in lines))
    letter = {**LETTER, "payload": b"{'temp': 71.6}"}
    assert ByFunction(f"{tmp_path}/mend.py:celsius").payload(letter) == b'{"temp":22.0}'


def test_a_function_that_is_not_there_is_named(tmp_path):
    with pytest.raises(errors.Stop, match=r"--with: .*absent\.py:mend: there is no file .*absent\.py$"):
        ByFunction(f"{tmp_path}/absent.py:mend")


def test_a_file_is_read_line_by_line_when_its_letter_comes(tmp_path):
    path = tmp_path / "edited.jsonl"
    path.write_text("\n" + json.dumps({"topic": "n/a", "id": "0a", "payload": "new"}) + "\n")
    correction = ByFile(path)
    assert correction.payload(LETTER) == b"new"
    assert list(correction.names or ()) == [("n/a", "0a")]
    path.write_text("\n{}" + " " * 80)
    with pytest.raises(Unrepaired, match="has changed"):
        correction.payload(LETTER)


def test_a_letter_that_is_named_twice_is_refused(tmp_path):
    path = tmp_path / "edited.jsonl"
    path.write_text((json.dumps({"topic": "n/a", "id": "0a", "payload": "new"}) + "\n") * 2)
    with pytest.raises(LocalError, match="line 2: n/a 0a is in the file twice"):
        ByFile(path)
    with pytest.raises(LocalError, match="absent"):
        ByFile(tmp_path / "absent")


ENVELOPE = Pipeline.model_construct(format="envelope", transforms=[], schema_file=None)


def letters(*payloads: bytes) -> pa.Table:
    numbers = range(len(payloads))
    return pa.table(
        {
            "_topic": [TOPIC if number % 2 else "n/b" for number in numbers],
            "_id": [name(number) for number in numbers],
            "_published_at": pa.array([moment(number) for number in numbers], TIMESTAMP),
            "payload": pa.array(payloads, pa.binary()),
        }
    )


def test_a_message_is_a_row_and_nonsense_a_letter():
    """Of several topics at once, with the identity of the letter, its day, and a batch that is none."""
    judged = PlainJudge(ENVELOPE)(letters(payload(0), b"nonsense", payload(2)))
    kept, rejected = task_writer.split_valid(judged)
    found = {row["_id"]: row for row in kept.to_pylist()}
    assert sorted(found) == [name(0), name(2)]
    assert {row["_batch"] for row in found.values()} == {-1}
    assert found[name(0)]["_date"] == moment(0).date() and found[name(0)]["_published_at"] == moment(0)
    assert rejected.select(["_topic", "_id", "code"]).to_pylist() == [
        {"_topic": TOPIC, "_id": name(1), "code": "not_json"}
    ]


def test_a_raw_pipeline_takes_anything():
    raw = ENVELOPE.model_copy(update={"format": "raw"})
    kept, rejected = task_writer.split_valid(PlainJudge(raw)(letters(b"\xff")))
    assert (kept["payload"].to_pylist(), rejected.num_rows) == ([b"\xff"], 0)


@pytest.mark.parametrize(
    ("given", "needs"), [({}, False), ({"transforms": ["a:b"]}, True), ({"schema_file": "s.json"}, True)]
)
def test_columns_and_transforms_are_sparks(given, needs):
    assert needs_spark(ENVELOPE.model_copy(update=given)) is needs
