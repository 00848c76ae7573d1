"""The program on a real standalone cluster: both executors work on one hot topic, and either may die."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tests.faults import fault_ingest_cluster
from tests.faults.fault_ingest_cluster import EXECUTOR, WORKER
from tests.faults.ingest_lab import TOPIC
from tests.support.messaging_service import upstream_message

HOT = 20_000
QUIET = [f"default/quiet-{number}" for number in range(8)]
SPLIT_BYTES = 512 * 1024


def tasks_by_stage(folder: Path) -> dict[int, Counter[str]]:
    """By stage, how many tasks each executor has ended; Spark's own account."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for path in folder.rglob("events_*"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
                found[event["Stage ID"]][event["Task Info"]["Executor ID"]] += 1
    return found


@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_both_executors_read_one_hot_topic_and_may_die(tmp_path: Path) -> None:
    """Over mutual TLS into an object store; quiet topics beside it take nothing away."""
    log = tmp_path / "events"
    log.mkdir()
    with fault_ingest_cluster.opened() as cluster:
        for name in QUIET:
            cluster.service.create(name)
            cluster.service.publish(name, [b"quiet"])
        cluster.service.publish(TOPIC, [upstream_message(number) for number in range(HOT)])
        conf = {
            "spark.executor.memory": "512m",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": log.as_uri(),
            "spark.eventLog.compress": "false",
        }
        job = cluster.start(
            topics=[*QUIET, TOPIC],
            limits={"split_bytes": SPLIT_BYTES, "batch_rows": HOT + len(QUIET)},
            spark={"master": cluster.spark.url, "conf": conf},
        )
        cluster.lab.filled(job, HOT)
        # One batch took all of it, each executor about half.
        shares = [each for each in tasks_by_stage(log).values() if sum(each.values()) > 1 and len(each) > 1]
        assert shares, job.tail()
        rows = cluster.lab.rows()
        assert max(Counter(rows["_batch"].to_list()).values()) >= HOT * 3 // 4
        for first, victim in ((HOT, EXECUTOR), (HOT + 100, WORKER)):
            job = cluster.kill(victim, job)
            cluster.service.publish(TOPIC, [upstream_message(first + number) for number in range(100)])
            cluster.lab.filled(job, first + 100)
        assert job.stop() == 0, job.tail()
        count = cluster.lab.verdict(2, HOT + 200)
        assert (count["lost"], count["duplicated"]) == (0, 0)
        assert cluster.lab.rows("_dead_letters").height == len(QUIET)
