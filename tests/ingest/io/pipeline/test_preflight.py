"""Mistakes that need no Spark to be found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.topics.job_settings import AWAY, job_settings

from fairlead_ingest import errors
from fairlead_ingest.io.pipeline import preflight
from fairlead_ingest.settings import IngestSettings


def settings(tmp_path: Path, **more: Any) -> IngestSettings:
    given = {"messaging_url": AWAY, "topics": ["a/t"], **more}
    return job_settings(tmp_path, given.pop("messaging_url"), *given.pop("topics"), **given)


def check(found: IngestSettings) -> None:
    preflight.check(found, found.jobs())


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "No such file"),
        ('{"columns": {"a": "char(3)"}}', "a: char"),
        ("{", ""),
        (b"\xff\xff", ""),
    ],
)
def test_a_schema_that_cannot_be_used_is_found(tmp_path, schema, reason):
    path = tmp_path / "schema.json"
    if schema is not None:
        path.write_bytes(schema if isinstance(schema, bytes) else schema.encode())
    with pytest.raises(errors.Stop, match=rf"FAIRLEAD_SCHEMA_BROKEN: {path}.*{reason}"):
        check(settings(tmp_path, schema=str(path)))


@pytest.mark.parametrize("text", ["def other(rows): return rows", "1 / 0", "import nothing_of_this_name"])
def test_a_transform_that_cannot_be_loaded_is_found(tmp_path, text):
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(
        errors.Stop, match=rf"FAIRLEAD_BAD_OPTION: transforms: {tmp_path}/own.py(:| has no function )wanted"
    ):
        check(settings(tmp_path, transforms=[f"{tmp_path}/own.py:wanted"]))


def test_certificates_that_are_not_there_are_found(tmp_path):
    files = {key: str(tmp_path / key) for key in ("tls_ca", "tls_cert", "tls_key")}
    (tmp_path / "tls_ca").touch()
    with pytest.raises(errors.Stop, match=r"tls_cert: .*No such file"):
        check(settings(tmp_path, security="mtls", messaging_url="https://h:1", **files))


def test_every_pipeline_that_cannot_start_is_named(tmp_path):
    """One after the other would take as many starts."""
    lines = [
        {"name": name, "topics": ["a/t"], "table": str(tmp_path / name), "checkpoint": str(tmp_path / f"c-{name}")}
        for name in ("one", "two", "three")
    ]
    lines[0]["transforms"], lines[2]["schema"] = [f"{tmp_path}/none.py:f"], str(tmp_path / "none.json")
    found = IngestSettings(messaging_url=AWAY, security="insecure", pipelines=lines)  # type: ignore[arg-type]
    with pytest.raises(errors.Stop) as wrong:
        check(found)
    first, second = str(wrong.value).splitlines()
    assert first.startswith(f"{errors.BAD_OPTION}: pipeline one: transforms: {tmp_path}/none.py:f: there is no file")
    assert second.startswith(f"{errors.SCHEMA_BROKEN}: pipeline three: {tmp_path}/none.json: ")


def test_a_job_without_mistakes_goes_on(tmp_path):
    (tmp_path / "schema.json").write_text("a INT")
    check(settings(tmp_path, schema=str(tmp_path / "schema.json")))
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"latest": {"key": ["nod"]}}, r"\[latest\] key: the rows have no column 'nod'; there are id, node, epoch"),
        ({"latest": {"key": ["node"]}, "format": "raw"}, "no column 'node'; there are payload, _topic"),
        ({"latest": {"key": ["asset"], "order_by": ["tags"]}, "schema": "FILE"}, "order_by: column 'tags' is list"),
        ({"latest": {"key": ["weight"]}, "schema": "FILE"}, "key: column 'weight' is double"),
    ],
)
def test_columns_of_a_latest_table_that_no_row_has_are_found(tmp_path, more, reason):
    file = tmp_path / "schema.json"
    file.write_text('{"columns": {"asset": "string", "weight": "double", "tags": "array<string>"}}')
    named = {key: str(file) if value == "FILE" else value for key, value in more.items()}
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: .*{reason}"):
        check(settings(tmp_path, **named))


def test_columns_that_a_transform_or_a_body_may_bring_are_left_to_the_start(tmp_path):
    file = tmp_path / "schema.json"
    file.write_text('{"mode": "evolve", "columns": {}}')
    check(settings(tmp_path, schema=str(file), latest={"key": ["asset"]}))
    file.write_text('{"columns": {"asset": "string"}}')
    latest = {"key": ["asset", "node", "_topic"], "order_by": ["enqueued_at", "sequence"], "columns": ["body", "_date"]}
    check(settings(tmp_path, schema=str(file), latest=latest))


# --- Folders and topics, before a job starts.


def test_a_folder_that_cannot_be_written_to_is_found_with_its_user(tmp_path, monkeypatch):
    """The table's, a table beside it, the checkpoint's; where there is none yet, the folder above it."""
    (tmp_path / "rows").mkdir()
    job = settings(tmp_path)
    preflight.check_folders(job)
    for closed, named in (("rows", "rows"), (".", "rows_dead_letters"), (".", "checkpoint")):
        if named == "checkpoint":
            (tmp_path / "rows_dead_letters").mkdir()
            (tmp_path / "rows_gaps").mkdir()
        refused = tmp_path / closed
        monkeypatch.setattr(os, "access", lambda path, _, refused=refused: Path(path) != refused)
        with pytest.raises(errors.Stop) as error:
            preflight.check_folders(job)
        assert error.value.code == errors.TABLE_UNFIT
        assert f"{tmp_path / named}" in str(error.value)
        assert f"user {preflight._user()} cannot write to {refused}" in str(error.value)


def test_a_file_where_a_folder_should_be_is_found(tmp_path):
    (tmp_path / "rows").touch()
    with pytest.raises(errors.Stop, match=f"{errors.TABLE_UNFIT}: {tmp_path}/rows is not a folder"):
        preflight.check_folders(settings(tmp_path))
    with pytest.raises(errors.Stop, match=f"{tmp_path}/rows is not a folder"):
        preflight.check_folders(settings(tmp_path, table=str(tmp_path / "rows" / "inner")))


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "topic_missing"]
    return [each["reason"] for each in said]


def test_a_job_that_ends_is_not_started_for_topics_that_are_not_there(messaging, topic, tmp_path, caplog):
    """With the name that was meant. One that is there is enough; one that goes on waits."""
    once = {"messaging_url": messaging.url, "trigger": "available-now"}
    with pytest.raises(errors.Stop, match=f"{topic}s does not exist: did you mean {topic}\\? .*topics create"):
        preflight.check_topics(settings(tmp_path, **once, topics=[f"{topic}s"]))
    preflight.check_topics(settings(tmp_path, **once, topics=[f"{topic}s", topic]))
    assert len(warned(caplog)) == 1 and f"{topic}s does not exist" in warned(caplog)[0]
    preflight.check_topics(settings(tmp_path, messaging_url=messaging.url, topics=[f"{topic}s"]))


def test_a_service_that_is_away_is_left_to_the_job(tmp_path):
    preflight.check_topics(settings(tmp_path, trigger="available-now"))
