"""What is looked at before the first batch, on executors that are processes of this machine's own session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.messaging_service import MessagingService

from fairlead_ingest import errors
from fairlead_ingest.cluster.task_report import TaskReport
from fairlead_ingest.io.pipeline import executor_probe
from fairlead_ingest.settings import Settings


def settings(folder: Path, url: str, topic: str, **more: Any) -> Settings:
    values = {
        "messaging_url": url,
        "security": "insecure",
        "topics": [topic],
        "table": str(folder / "data" / "rows"),
        "checkpoint": str(folder / "checkpoint"),
    }
    return Settings.model_validate({**values, **more})


def looked(question: executor_probe.Question) -> TaskReport:
    (found,) = list(executor_probe.Look(question)([pa.RecordBatch.from_pydict({"id": [1]})]))
    return msgspec.json.decode(found["report"][0].as_py(), type=TaskReport)


def question(**changes: Any) -> executor_probe.Question:
    values: dict[str, Any] = {
        "markers": {}, "files": {}, "stores": (), "url": "http://127.0.0.1:9", "topic": "a/t", "tls": None,
    }  # fmt: skip
    return executor_probe.Question(**{**values, **changes})


def test_a_task_says_what_it_sees(tmp_path: Path) -> None:
    """A folder that is not there, a key that is not there, a service that does not answer."""
    (tmp_path / "marker").touch()
    markers = {"/shared": str(tmp_path / "marker"), "/own": str(tmp_path / "none")}
    found = looked(question(markers=markers, files={"tls_key": str(tmp_path / "key")}))
    assert found.seen == {"/shared": True, "/own": False}
    assert [each.code for each in found.findings] == [errors.WORKER_UNFIT]
    assert f"tls_key: {tmp_path}/key: No such file" in found.findings[0].sentence
    assert [each.code for each in looked(question()).findings] == [errors.UNREACHABLE]


@pytest.mark.spark
def test_tasks_of_a_session_are_asked_and_nothing_is_left_behind(
    spark: SparkSession, messaging: MessagingService, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster, whose executors live on this machine."""
    chosen = settings(tmp_path, messaging.url, topic)
    assert executor_probe.check(spark, chosen) == []
    monkeypatch.setattr(executor_probe, "is_local", lambda _: False)
    reports = executor_probe.check(spark, chosen)
    assert reports and all(all(each.seen.values()) and not each.findings for each in reports)
    assert {key for each in reports for key in each.seen} == {
        str(tmp_path / "data" / "rows"),
        str(tmp_path / "checkpoint"),
    }
    assert list(tmp_path.iterdir()) == []
