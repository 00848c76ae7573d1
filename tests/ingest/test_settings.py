"""What may be set, and what is said about what may not."""

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
def test_a_trigger_is_available_now_or_seconds(trigger: Any, seconds: float | None) -> None:
    """Also as text, for the environment."""
    assert made(trigger=trigger).trigger_seconds == seconds


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trigger": "often"}, "trigger: "),
        ({"spark": {"remote": "spark://h:1"}}, "spark.remote: must be sc://host:port"),
        ({"spark": {"remote": "sc://h:1", "master": "local[2]"}}, "spark.remote: not together with master"),
        ({"spark": {"remote": "sc://h:1"}, "checkpoint": "s3://tables/c"}, "checkpoint: must be a folder"),
        ({"trigger": -1}, "trigger: "),
        ({"format": "csv"}, "format: "),
        ({"topics": []}, "topics: "),
        ({"topics": ["a"]}, "topics[0]: must be namespace/name"),
        ({"topics": ["a/b", "a/b"]}, "topics: one is named twice"),
        ({"table": ""}, "table: "),
        ({"table": "gs://bucket/rows"}, "table: only s3://bucket/path is supported, not Google Cloud Storage: "),
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
def test_what_cannot_be_meant_is_refused_by_key(changes: dict[str, Any], reason: str) -> None:
    """Each mistake begins with the key."""
    said = [str(each) for each in MODELS.find({**BASE, **changes}, IngestSettings)]
    assert [each for each in said if each.startswith(reason)], said


def test_pipelines_inherit_what_they_leave_out() -> None:
    """Several tables in one job."""
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
