"""Spark's addresses, and the sentence that follows from the reports of tasks."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_ingest import errors, spark_cluster
from fairlead_ingest.spark_cluster import TaskFinding, TaskReport


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("sc://spark", ("spark", 15002)),
        ("sc://spark:7", ("spark", 7)),
        ("sc://[::1]:7/;use_ssl=true;user_id=ingest", ("::1", 7)),
    ],
)
def test_a_server_is_named_by_host_and_port(remote, expected):
    assert spark_cluster.check(remote) == remote
    assert spark_cluster.address(remote) == expected


@pytest.mark.parametrize(
    ("remote", "reason"),
    [
        ("spark://h:7077", "sc://host:port"),
        ("sc://", "sc://host:port"),
        ("sc://user:secret@h:1", "sc://host:port"),
        ("sc://h:99999", "port"),
        ("sc://h:1?x", "sc://host:port"),
        ("sc://h:1/;token=secret", "SPARK_CONNECT_AUTHENTICATE_TOKEN"),
        ("sc://h:1/;colour=red", "colour"),
        ("sc://h:1/;use_ssl", "use_ssl"),
    ],
)
def test_a_wrong_address_says_how_it_is_written(remote, reason):
    """A token would be in every log line that names the server."""
    with pytest.raises(ValueError, match=reason) as found:
        spark_cluster.check(remote)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[*]", []),
        ("k8s://https://h:6443", []),
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://a", []),
        ("spark://a:x", []),
    ],
)
def test_masters_are_listed_where_they_can_be(master, expected):
    assert spark_cluster.standalone_masters(master) == expected


SHARED = {"/data/rows": "the folder of the table"}


def report(**changes: Any) -> TaskReport:
    return TaskReport(**{"executor": "0", "host": "h1", "version": "1.0", **changes})


def test_executors_that_are_as_they_must_be_are_no_reason_to_stop():
    assert spark_cluster.unfit([report(seen={"/data/rows": True}), report(executor="1")], "1.0", SHARED) is None
    assert spark_cluster.unfit([report()], "1.0", {}) is None


def test_another_version_is_named_with_both():
    found = spark_cluster.unfit([report(), report(executor="7", host="h2", version="0.9")], "1.0", {})
    assert found is not None and found.code == errors.WORKER_UNFIT
    assert "executor 7 on h2 has fairlead 0.9, but this program is 1.0" in str(found)


def test_a_table_in_a_folder_of_one_machine_is_found():
    """Else its rows would be on all machines and its log on one."""
    found = spark_cluster.unfit([report(seen={"/data/rows": False})], "1.0", SHARED)
    assert found is not None and found.code == errors.WORKER_UNFIT
    assert "cannot see the folder of the table /data/rows" in str(found) and "s3://" in str(found)
    assert spark_cluster.not_shared([report(seen={"/c": False}), report(host="h2", seen={"/c": True})], "/c") == ["h1"]


def test_what_waiting_heals_does_not_stop_a_job():
    away, denied = TaskFinding(errors.UNREACHABLE, "no answer"), TaskFinding(errors.STORE_DENIED, "wrong key")
    assert spark_cluster.unfit([report(findings=[away])], "1.0", {}) is None
    assert spark_cluster.passing([report(findings=[away])]) == ["executor 0 on h1: no answer"]
    found = spark_cluster.unfit([report(findings=[away, denied])], "1.0", {})
    assert found is not None and found.code == errors.STORE_DENIED and "executor 0 on h1: wrong key" in str(found)
