"""Mistakes that need no Spark to be found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.pipeline import preflight
from fairlead_ingest.settings import IngestSettings


def settings(tmp_path: Path, **more: Any) -> IngestSettings:
    values = {
        "messaging_url": "http://127.0.0.1:9",
        "security": "insecure",
        "topics": ["a/t"],
        "table": str(tmp_path / "rows"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    return IngestSettings.model_validate({**values, **more})


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
def test_a_schema_that_cannot_be_used_is_found(tmp_path: Path, schema: str | bytes | None, reason: str) -> None:
    """With its file."""
    path = tmp_path / "schema.json"
    if schema is not None:
        path.write_bytes(schema if isinstance(schema, bytes) else schema.encode())
    with pytest.raises(errors.Stop, match=rf"FAIRLEAD_SCHEMA_BROKEN: {path}.*{reason}"):
        check(settings(tmp_path, schema=str(path)))


@pytest.mark.parametrize(
    "text", ["def other(rows): return rows", "1 / 0", "def broken(:", "import nothing_of_this_name"]
)
def test_a_transform_that_cannot_be_loaded_is_found(tmp_path: Path, text: str) -> None:
    """Whatever its module raises."""
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(errors.Stop, match=rf"FAIRLEAD_BAD_OPTION: transforms: {tmp_path}/own.py:wanted"):
        check(settings(tmp_path, transforms=[f"{tmp_path}/own.py:wanted"]))


def test_certificates_that_are_not_there_are_found(tmp_path: Path) -> None:
    """By their key."""
    files = {key: str(tmp_path / key) for key in ("tls_ca", "tls_cert", "tls_key")}
    (tmp_path / "tls_ca").touch()
    with pytest.raises(errors.Stop, match=r"tls_cert: .*No such file"):
        check(settings(tmp_path, security="mtls", messaging_url="https://h:1", **files))


def test_a_job_without_mistakes_goes_on(tmp_path: Path) -> None:
    """Nothing is made."""
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
def test_columns_of_a_latest_table_that_no_row_has_are_found(tmp_path: Path, more: dict[str, Any], reason: str) -> None:
    """With those there are."""
    file = tmp_path / "schema.json"
    file.write_text('{"columns": {"asset": "string", "weight": "double", "tags": "array<string>"}}')
    named = {key: str(file) if value == "FILE" else value for key, value in more.items()}
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: .*{reason}"):
        check(settings(tmp_path, **named))


def test_columns_that_a_transform_or_a_body_may_bring_are_left_to_the_start(tmp_path: Path) -> None:
    """And those that are there are taken."""
    file = tmp_path / "schema.json"
    file.write_text('{"mode": "evolve", "columns": {}}')
    check(settings(tmp_path, schema=str(file), latest={"key": ["asset"]}))
    file.write_text('{"columns": {"asset": "string"}}')
    latest = {"key": ["asset", "node", "_topic"], "order_by": ["enqueued_at", "sequence"], "columns": ["body", "_date"]}
    check(settings(tmp_path, schema=str(file), latest=latest))
