"""Settings of a job, and the errors for settings that cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_ingest.settings import IngestSettings
from fairlead_wire.validation.model import MODELS

BASE: dict[str, Any] = {
    "messaging_url": "http://127.0.0.1:11015",
    "topics": ["default/telemetry"],
    "table": "/t",
    "checkpoint": "/c",
    "security": "insecure",
}


def made(**changes: Any) -> IngestSettings:
    return IngestSettings.model_validate({**BASE, **changes})


@pytest.mark.parametrize(
    ("trigger", "seconds"), [("available-now", None), (0, 0.0), (1.5, 1.5), ("2", 2.0), ("0.5", 0.5)]
)
def test_a_trigger_is_available_now_or_seconds(trigger, seconds):
    assert made(trigger=trigger).trigger_seconds == seconds


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trigger": "often"}, "trigger: "),
        ({"spark": {"remote": "spark://h:1"}}, "spark.remote: must be sc://host:port"),
        ({"spark": {"remote": "sc://h:1", "master": "local[2]"}}, "spark.remote: not allowed with master"),
        ({"spark": {"remote": "sc://h:1"}, "checkpoint": "s3://tables/c"}, "checkpoint: must be a folder"),
        ({"trigger": -1}, "trigger: "),
        ({"format": "csv"}, "format: "),
        ({"topics": []}, "topics: "),
        ({"topics": ["a"]}, "topics[0]: must be namespace/name"),
        ({"topics": ["a/b", "a/b"]}, "topics: a topic is repeated"),
        ({"table": ""}, "table: "),
        ({"table": "gs://bucket/rows"}, "table: only s3://bucket/path is supported, not Google Cloud Storage, "),
        ({"table": "s3:/bucket/rows"}, "table: only s3://bucket/path is supported"),
        ({"checkpoint": "s3:/bucket/rows"}, "checkpoint: only s3://bucket/path is supported"),
        ({"table": "s3://bucket"}, "table: must name a path in the bucket"),
        ({"table": "s3://B/rows"}, "table: must name a bucket"),
        ({"checkpoint": "s3://bucket"}, "checkpoint: must name a path"),
        ({"storage": {"endpoint_url": "http://store.example.com"}}, "storage.endpoint_url: must be https://"),
        ({"storage": {"access_key_id": "key\n"}}, "storage.access_key_id: must be printable"),
        ({"storage": {"region": "two words"}}, "storage.region: must be printable"),
        ({"storage": {"endpoint_url": "https://key:secret@store"}}, "storage.endpoint_url: must be https://"),
        ({"storage": {"secret_access_key": "x"}}, "storage.secret_access_key"),
        ({"transforms": ["no-function"]}, "transforms[0]: "),
        ({"dedupe_seconds": -1}, "dedupe_seconds: "),
        ({"format": "raw", "schema": "s.json"}, "format: "),
        ({"starting_position": "soon"}, "starting_position: "),
        ({"starting_position": -5}, "starting_position: "),
        ({"starting_position": True}, "starting_position: "),
        ({"on_expired": "ignore"}, "on_expired: "),
        ({"on_recreated": "ignore"}, "on_recreated: "),
        ({"security": "none"}, "security: "),
        ({"security": "mtls"}, "messaging_url: "),
        ({"security": "mtls", "messaging_url": "https://h:1"}, "tls_ca: "),
        ({"messaging_url": "https://h:1"}, "messaging_url: "),
        ({"http_listen": "nowhere"}, "http_listen: "),
        ({"http_listen": "127.0.0.1:70000"}, "http_listen: "),
        ({"http_listen": "0.0.0.0:80"}, "http_listen: "),
        ({"http_listen": "127.example.com:80"}, "http_listen: "),
        ({"http_listen": "localhost.example.com:80"}, "http_listen: "),
        ({"request_seconds": 0}, "request_seconds: "),
        ({"limits": {"batch_rows": 0}}, "limits.batch_rows: "),
        ({"unknown": 1}, "unknown"),
        ({"reader": "a/b"}, "reader: "),
        ({"pipelines": [{"topics": ["a/b"], "table": "/t", "checkpoint": "/d"}]}, "table: /t would be"),
        (
            {"pipelines": [{"topics": ["a/b"], "table": "/u", "checkpoint": "/d", "format": "x"}]},
            "pipelines[0].format: ",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_key(changes, reason):
    said = [str(each) for each in MODELS.find({**BASE, **changes}, IngestSettings)]
    assert [each for each in said if each.startswith(reason)], said


def test_pipelines_inherit_what_they_leave_out():
    values = {key: value for key, value in BASE.items() if key not in ("topics", "table", "checkpoint")}
    job = IngestSettings.model_validate(
        {
            **values,
            "format": "raw",
            "starting_position": "latest",
            "pipelines": [
                {"topics": ["a/b"], "table": "/t1", "checkpoint": "/c1"},
                {"name": "alarms", "topics": ["a/c"], "table": "/t2", "checkpoint": "/c2", "format": "envelope"},
            ],
        }
    )
    first, second = job.jobs()
    assert (first.name, first.format, first.starting_position) == ("pipeline-1", "raw", "latest")
    assert (second.name, second.format) == ("alarms", "envelope")


JOB: dict[str, Any] = {
    "messaging_url": "http://127.0.0.1:1", "security": "insecure", "topics": ["a/t"], "table": "/data/rows",
    "checkpoint": "/c/rows", "table_format": "iceberg",
}  # fmt: skip


def wrong(**changes: Any) -> str:
    with pytest.raises(ValueError) as refused:
        IngestSettings.model_validate({**JOB, **changes})
    return str(refused.value)


def test_a_catalog_goes_where_it_is_needed_and_holds_no_secret():
    settings = IngestSettings.model_validate(
        {**JOB, "catalog": {"type": "rest", "uri": "https://catalog:8181", "token_file": "/etc/token"}}
    )
    found = settings.catalog_of(None)
    assert found is not None and (found.type, found.namespace, found.token_file) == ("rest", "fairlead", "/etc/token")
    assert settings.catalog_of("delta") is None


def test_iceberg_needs_a_catalog():
    assert "catalog.uri: required with table_format" in wrong()


@pytest.mark.parametrize(
    ("catalog", "said"),
    [
        ({"uri": "postgresql://me:hush@db/x"}, "password_file"),
        ({"uri": "postgresql+psycopg://db/x?password=hush"}, "password_file"),
        ({"uri": "sqlite:////c.db", "oauth2_scope": "all"}, "oauth2_scope: not allowed with type"),
        ({"type": "rest", "uri": "https://c", "oauth2_scope": "a\nb"}, "oauth2_scope"),
        ({"uri": "sqlite:////c.db", "token_file": "/t"}, "token_file: not allowed with type"),
        ({"type": "rest", "uri": "https://c", "password_file": "/p"}, "password_file: not allowed with type"),
        ({"uri": "sqlite:////c.db", "namespace": "a b"}, "namespace: must be letters"),
        ({"type": "glue", "uri": "https://c"}, "type"),
    ],
)
def test_what_does_not_fit_together_is_refused(catalog, said):
    found = wrong(catalog=catalog)
    assert said in found and "hush" not in found


def test_two_tables_of_one_name_in_one_namespace_are_refused():
    """In folders of their own they would not meet, in the catalog they would."""
    other = {"topics": ["b/t"], "table": "/other/rows", "checkpoint": "/c/other"}
    assert "pipelines[0].table" in wrong(catalog={"uri": "sqlite:////c.db"}, pipelines=[other])
    other["table"] = "/other/rows_gaps"
    assert "rows_gaps" in wrong(catalog={"uri": "sqlite:////c.db"}, pipelines=[other])


def test_a_name_that_no_catalog_takes_is_refused():
    assert "letters, digits" in wrong(catalog={"uri": "sqlite:////c.db"}, table="/data/my rows")
