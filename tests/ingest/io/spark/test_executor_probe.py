"""What is looked at before the first batch, on executors that are processes of this machine's own session."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from tests.support.topics.job_settings import job_settings

from fairlead_ingest import errors
from fairlead_ingest.io.spark import executor_probe
from fairlead_ingest.io.spark.connect import SparkAway
from fairlead_ingest.settings import IngestSettings
from fairlead_ingest.spark_cluster import TaskReport
from fairlead_wire import distribution
from fairlead_wire.io import logs


def settings(folder: Path, url: str, topic: str, **more: Any) -> IngestSettings:
    return job_settings(folder, url, topic, **{"table": str(folder / "data" / "rows"), **more})


def looked(question: executor_probe.CheckRequest) -> TaskReport:
    (found,) = list(executor_probe.ExecutorReporter(question)([pa.RecordBatch.from_pydict({"id": [1]})]))
    return msgspec.json.decode(found["report"][0].as_py(), type=TaskReport)


def question(**changes: Any) -> executor_probe.CheckRequest:
    values: dict[str, Any] = {
        "markers": {}, "files": {}, "stores": (), "url": "http://127.0.0.1:9", "topic": "a/t", "tls": None,
    }  # fmt: skip
    return executor_probe.CheckRequest(**{**values, **changes})


def test_a_task_says_what_it_sees(tmp_path):
    """A folder that is not there, a key that is not there, a service that does not answer."""
    (tmp_path / "marker").touch()
    markers = {"/shared": str(tmp_path / "marker"), "/own": str(tmp_path / "none")}
    found = looked(question(markers=markers, files={"tls_key": str(tmp_path / "key")}))
    assert found.seen == {"/shared": True, "/own": False}
    assert [each.code for each in found.findings] == [errors.WORKER_UNFIT]
    assert f"tls_key: {tmp_path}/key: No such file" in found.findings[0].sentence
    assert [each.code for each in looked(question()).findings] == [errors.UNREACHABLE]


@pytest.mark.spark
def test_tasks_of_a_session_are_asked_and_nothing_is_left_behind(spark, messaging, topic, tmp_path, monkeypatch):
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


def session(master: str, *, executors: int = 0) -> Any:
    tracker = SimpleNamespace(getExecutorInfos=lambda: ["driver"] * (1 + executors))
    jvm = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: tracker))
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, defaultParallelism=1, _jsc=jvm))


@pytest.mark.parametrize("lost", [SparkAway("the master is gone"), ConnectionRefusedError("no JVM")])
def test_a_spark_that_goes_meanwhile_is_not_said_of_a_folder(lost, tmp_path, monkeypatch):
    """It is waited for; a folder that is unfit would end the program."""

    def ask(*_: object) -> None:
        raise lost

    monkeypatch.setattr(executor_probe, "_ask", ask)
    with pytest.raises(type(lost), match=str(lost)):
        executor_probe.check(session("spark://h:7077"), settings(tmp_path, "http://127.0.0.1:9", "a/t"))
    assert list(tmp_path.iterdir()) == []


def test_markers_of_looks_that_were_killed_go(tmp_path, monkeypatch):
    old, new = (tmp_path / f".fairlead-probe-{name}" for name in ("old", "new"))
    for each in (old, new):
        each.mkdir()
        (each / "driver").touch()
    os.utime(old, (0, 0))
    monkeypatch.setattr(executor_probe, "_ask", lambda *_: [])
    executor_probe.check(session("k8s://https://h:6443"), settings(tmp_path, "http://127.0.0.1:9", "a/t"))
    assert list(tmp_path.iterdir()) == [new]


def test_a_folder_of_ones_own_is_a_warning_where_it_could_be_shared(tmp_path, monkeypatch, capfd):
    seen = {str(tmp_path / "checkpoint"): False}
    report = TaskReport(executor="1", host="h", version=distribution.version(), seen=seen)
    monkeypatch.setattr(executor_probe, "_ask", lambda *_: [report])
    logs.configure("ingest", "info")
    for master, level in (("spark://h:7077", "warning"), ("k8s://https://h:6443", "info")):
        chosen = settings(tmp_path, "http://127.0.0.1:9", "a/t", table="s3://bucket/rows")
        executor_probe.check(session(master), chosen)
        said = [json.loads(line) for line in "".join(capfd.readouterr()).splitlines()]
        assert [each["level"] for each in said if each["event"] == "checkpoint_not_shared"] == [level]


def test_what_to_do_where_none_comes_fits_the_cluster():
    """Kubernetes has Pods, a standalone cluster workers; one that is there and slow lacks nothing."""
    for master in ("spark://h:7077", "k8s://https://h:6443"):
        assert executor_probe.no_executor(session(master, executors=1)) == ""
    assert "kubectl describe pod -l spark-role=executor" in executor_probe.no_executor(session("k8s://https://h:6443"))
    assert "no worker" in executor_probe.no_executor(session("spark://h:7077"))
