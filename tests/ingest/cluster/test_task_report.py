"""What tasks found becomes one sentence, or none."""

from __future__ import annotations

from typing import Any

from fairlead_ingest import errors, spark_cluster
from fairlead_ingest.spark_cluster import TaskFinding, TaskReport

SHARED = {"/data/rows": "the folder of the table"}


def report(**changes: Any) -> TaskReport:
    return TaskReport(**{"executor": "0", "host": "h1", "version": "1.0", **changes})


def test_executors_that_are_as_they_must_be_are_no_reason_to_stop() -> None:
    """Also without shared folders."""
    assert spark_cluster.unfit([report(seen={"/data/rows": True}), report(executor="1")], "1.0", SHARED) is None
    assert spark_cluster.unfit([report()], "1.0", {}) is None


def test_another_version_is_named_with_both() -> None:
    """Tasks unpack what the driver packed."""
    found = spark_cluster.unfit([report(), report(executor="7", host="h2", version="0.9")], "1.0", {})
    assert found is not None and found.code == errors.WORKER_UNFIT
    assert "executor 7 on h2 has fairlead 0.9, this program is 1.0" in str(found)


def test_a_table_in_a_folder_of_one_machine_is_found() -> None:
    """Else its rows would be on all machines and its log on one."""
    found = spark_cluster.unfit([report(seen={"/data/rows": False})], "1.0", SHARED)
    assert found is not None and found.code == errors.WORKER_UNFIT
    assert "does not see the folder of the table /data/rows" in str(found) and "s3://" in str(found)
    assert spark_cluster.not_shared([report(seen={"/c": False}), report(host="h2", seen={"/c": True})], "/c") == ["h1"]


def test_what_waiting_heals_does_not_stop_a_job() -> None:
    """It is said, and the job waits as it always does."""
    away, denied = TaskFinding(errors.UNREACHABLE, "no answer"), TaskFinding(errors.STORE_DENIED, "wrong key")
    assert spark_cluster.unfit([report(findings=[away])], "1.0", {}) is None
    assert spark_cluster.passing([report(findings=[away])]) == ["executor 0 on h1: no answer"]
    found = spark_cluster.unfit([report(findings=[away, denied])], "1.0", {})
    assert found is not None and found.code == errors.STORE_DENIED and "executor 0 on h1: wrong key" in str(found)
