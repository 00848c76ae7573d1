"""Letters of the real job, repaired by its own query; and the whole way from poison to a table equal to the model."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from tests.support.topics.job_settings import job_settings

from fairlead_ingest.dead_letters import LetterSelection, Tally
from fairlead_ingest.io.letters.correction import ByFunction, Correction, Rejudged, SparkJudge
from fairlead_ingest.io.letters.repair import Repair
from fairlead_ingest.io.pipeline import backfill, query
from fairlead_ingest.io.table import tables

DELTA = tables.of("delta")
MENDING = """
import json

def mend(letter):
    if letter["code"] == "not_json":
        return letter["payload"].split(b" ", 1)[1]
    if letter["code"] == "not_utf8":
        return None
    return letter["payload"]
"""
TRANSFORMS = """
from pyspark.sql import functions as F

def limited(rows):
    too_much = F.col("_error").isNull() & (F.col("temperature") > 1000)
    return rows.withColumn("_error", F.when(too_much, F.lit("hotter than any sensor")).otherwise(F.col("_error")))
"""


def message(number: int, temperature: Any) -> bytes:
    fields = {"id": f"m{number}", "node": "n", "epoch": 1, "stream": "s", "sequence": number}
    return msgspec.json.encode({**fields, "body": {"temperature": temperature, "at": "2026-11-20T12:30:00.25+01:00"}})


@pytest.mark.verify
def test_poison_becomes_rows_once_and_the_table_equals_the_model(run, spark, messaging, topic, tmp_path):
    """Bad JSON, misfits and what a transform refuses, repaired in three ways; a backfill and a second repair add
    nothing."""
    (tmp_path / "mending.py").write_text(MENDING)
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    schema, table = tmp_path / "schema.json", tmp_path / "rows"
    schema.write_text('{"columns": {"temperature": "tinyint", "at": "timestamp"}}')
    payloads = [message(number, 20 + number) for number in range(6)]
    payloads += [b"junk " + message(6, 26), message(7, 200), message(8, 5000), b"\xff\xfe", message(10, "21")]
    messaging.publish(topic, payloads)
    given = {"schema": str(schema), "transforms": [f"{tmp_path}/transforms.py:limited"]}
    run(**given)
    settings = job_settings(tmp_path, messaging.url, topic, **given)

    def rows() -> dict[int, Any]:
        found = tables.existing(DELTA, table).to_table().to_pylist()
        assert max(Counter((row["_topic"], row["_id"]) for row in found).values()) == 1
        return {row["sequence"]: row for row in found}

    def repair(how: Correction) -> Tally:
        job = settings.jobs()[0]
        repairing = Repair(DELTA, table, LetterSelection(), how, evolves=query.evolves(job))
        return repairing.run(lambda: SparkJudge(spark, settings, job))

    assert sorted(rows()) == [*range(6)]
    first = repair(Rejudged())
    assert (first.letters, first.repaired, dict(first.still)) == (5, 0, {"not_json": 1, "not_utf8": 1, "misfit": 3})
    # A wider column is another table's: what is changed here is what the job reads into it.
    schema.write_text('{"columns": {"temperature": "tinyint", "at": "timestamp", "unit": "string"}}')
    done = repair(ByFunction(f"{tmp_path}/mending.py:mend"))
    assert (done.repaired, done.kept, dict(done.still)) == (1, 1, {"misfit": 3})
    (tmp_path / "mending.py").write_text(
        "import json\n\n\ndef mend(letter):\n    message = json.loads(letter['payload'])\n"
        "    heat = float(message['body']['temperature'])\n"
        "    message['body']['temperature'] = round(min(heat, 127))\n    return message\n"
    )
    done = repair(ByFunction(f"{tmp_path}/mending.py:mend"))
    assert (done.repaired, dict(done.still)) == (3, {"failed": 1})
    job = settings.jobs()[0]
    added = backfill.run(spark, settings, job, from_ms=None, until_ms=None, into=table)["rows_added"]
    assert added == 0
    assert repair(Rejudged()).letters == 1
    found = rows()
    assert {number: row["temperature"] for number, row in found.items()} == {
        **{number: 20 + number for number in range(7)}, 7: 127, 8: 127, 10: 21,
    }  # fmt: skip
    assert {row["at"].isoformat() for row in found.values()} == {"2026-11-20T11:30:00.250000+00:00"}
    # The job goes on as if nothing had been.
    messaging.publish(topic, [message(11, 31)])
    run(**given)
    assert rows()[11]["_batch"] >= 1 and len(rows()) == 11
    marks = tables.existing(DELTA, tables.beside(table, tables.REPAIRS)).to_table()
    assert Counter(marks["method"].to_pylist()) == {"function mending.py:mend": 4}


@pytest.mark.verify
def test_what_a_transform_refuses_or_leaves_out_stays_a_letter_with_its_reason(run, spark, messaging, topic, tmp_path):
    """Also where the transform itself fails: that letter is found among the others, which become rows."""
    path = tmp_path / "transforms.py"
    path.write_text("from pyspark.sql import functions as F\n\ndef one(rows):\n    return rows\n")
    messaging.publish(topic, [b"broken %d" % number for number in range(6)])
    given = {"transforms": [f"{path}:one"]}
    run(**given)
    path.write_text(
        "from pyspark.sql import functions as F\n\n\ndef one(rows):\n"
        "    error = F.raise_error(F.lit('three is refused'))\n"
        "    fails = F.when(F.col('sequence') == 3, error).otherwise(F.col('source'))\n"
        "    return rows.withColumn('source', fails).where('sequence != 4')\n"
    )
    (tmp_path / "mending.py").write_text(
        "def mend(letter):\n    number = int(letter['payload'].split()[1])\n"
        "    return {'id': 'm', 'node': 'n', 'epoch': 1, 'stream': 's', 'sequence': number, 'body': 1}\n"
    )
    settings = job_settings(tmp_path, messaging.url, topic, **given)
    repairing = Repair(DELTA, tmp_path / "rows", LetterSelection(), ByFunction(f"{tmp_path}/mending.py:mend"))
    done = repairing.run(lambda: SparkJudge(spark, settings, settings.jobs()[0]))
    assert (done.repaired, dict(done.still)) == (4, {"failed": 1, "left_out": 1})
    assert any("three is refused" in each.error for each in done.examples)
    found = tables.existing(DELTA, tmp_path / "rows").to_table()["sequence"].to_pylist()
    assert sorted(found) == [0, 1, 2, 5]
