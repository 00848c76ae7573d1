"""What may be set, and what is said about what may not."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from fairlead_ingest import settings
from fairlead_ingest.settings import Settings

BASE: dict[str, Any] = {
    "messaging_url": "http://127.0.0.1:11015",
    "topics": ["default/telemetry"],
    "table": "/t",
    "checkpoint": "/c",
    "security": "insecure",
}


def made(**changes: Any) -> Settings:
    return msgspec.convert({**BASE, **changes}, Settings)


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
        ({"trigger": -1}, "trigger: "),
        ({"format": "csv"}, "format: "),
        ({"topics": []}, "topics: "),
        ({"topics": ["a"]}, "topics: 'a'"),
        ({"topics": ["a/b", "a/b"]}, "topics: one is named twice"),
        ({"table": ""}, "table: "),
        ({"table": "s3://bucket/rows"}, "table: a folder"),
        ({"transforms": ["no-function"]}, "transforms: "),
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
        ({"limits": {"batch_rows": 0}}, "batch_rows: "),
        ({"unknown": 1}, "unknown"),
        ({"reader": "a/b"}, "reader: "),
        ({"pipelines": [{"topics": ["a/b"], "table": "/t", "checkpoint": "/d"}]}, "table: /t would be"),
        ({"pipelines": [{"topics": ["a/b"], "table": "/u", "checkpoint": "/d", "format": "x"}]}, "format: "),
    ],
)
def test_what_cannot_be_meant_is_refused_by_key(changes: dict[str, Any], reason: str) -> None:
    """Each message begins with the key."""
    with pytest.raises(msgspec.ValidationError, match=reason):
        made(**changes)


def test_pipelines_inherit_what_they_leave_out() -> None:
    """Several tables in one job."""
    values = {key: value for key, value in BASE.items() if key not in ("topics", "table", "checkpoint")}
    job = msgspec.convert(
        {
            **values,
            "format": "raw",
            "starting_position": "latest",
            "pipelines": [
                {"topics": ["a/b"], "table": "/t1", "checkpoint": "/c1"},
                {"name": "alarms", "topics": ["a/c"], "table": "/t2", "checkpoint": "/c2", "format": "envelope"},
            ],
        },
        Settings,
    )
    first, second = job.jobs()
    assert (first.name, first.format, first.starting_position) == ("pipeline-1", "raw", "latest")
    assert (second.name, second.format) == ("alarms", "envelope")


@pytest.mark.parametrize(
    ("position", "start"),
    [
        ("earliest", "earliest"),
        ("table", "table"),
        ("2026-11-20T12:00:00Z", 1795176000000),
        ("2026-11-20T12:00:00", 1795176000000),
        ("2026-11-20T13:00:00+01:00", 1795176000000),
        (datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC), 1795176000000),
        (1795176000000, 1795176000000),
    ],
)
def test_a_start_is_a_name_or_a_moment(position: Any, start: str | int) -> None:
    """A time without a zone is UTC."""
    assert settings.start_of(position) == start
