"""The program on a real standalone cluster: both executors work on one hot topic, and either may die."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tests.faults import fault_ingest_cluster
from tests.faults.fault_ingest_cluster import EXECUTOR, WORKER, ClusterLab
from tests.faults.ingest_lab import TOPIC
from tests.support.processes import wait_until
from tests.support.topics.messaging_service import upstream_message

SECONDS = 480.0
HOT = 20_000
QUIET = [f"default/quiet-{number}" for number in range(8)]
QUERY = "sql.streaming.queryId"
SPLIT_BYTES = 512 * 1024


def tasks_by_stage(folder: Path) -> dict[int, Counter[str]]:
    """By stage of a batch, how many tasks each executor has ended; Spark's own account. Other stages, such as the look
    at the executors, are left out."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    of_batches: set[int] = set()
    for path in folder.rglob("events_*"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerJobStart" and QUERY in (event.get("Properties") or {}):
                of_batches.update(event["Stage IDs"])
            if event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
                found[event["Stage ID"]][event["Task Info"]["Executor ID"]] += 1
    return {stage: tasks for stage, tasks in found.items() if stage in of_batches}


def shown_in(cluster: ClusterLab, where: list[Path]) -> list[Path]:
    """Files of logs, of Spark's account and of its workers that hold the store's secret or a line of the job's key."""
    tls = cluster.service.tls
    assert tls is not None and tls.key is not None
    words = [cluster.store.secret.read_text().strip(), Path(tls.key).read_text().splitlines()[1]]
    files = [path for each in where for path in ([each] if each.is_file() else each.rglob("*")) if path.is_file()]
    assert any(path.name.startswith("events_") for path in files) and any(path.name == "stderr" for path in files)
    return [path for path in files if any(word.encode() in path.read_bytes() for word in words)]


@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_both_executors_read_one_hot_topic_and_may_die(tmp_path):
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
            # Both are there before the first task, however busy the machine is.
            "spark.cores.max": "2",
            "spark.scheduler.minRegisteredResourcesRatio": "1",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
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
        # One batch took all of it, both executors a part.
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
        secret_in = shown_in(cluster, [log, cluster.spark.folder, job.log])
        assert not secret_in, f"secrets in {secret_in}"


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_without_a_worker_the_job_says_so_and_ends_when_it_is_stopped():
    with fault_ingest_cluster.opened(workers=0) as cluster:
        checkpoint = cluster.lab.disk / "own" / "checkpoint"
        checkpoint.mkdir(parents=True)
        job = cluster.start(checkpoint=str(checkpoint))

        def said() -> bool:
            job.require_alive()
            return "no_executor_yet" in job.log.read_text()

        wait_until("it says so", said, seconds=SECONDS, describe=job.tail)
        assert "no worker of the cluster has a free core" in job.log.read_text()
        assert len(list(checkpoint.iterdir())) == 1
        assert job.stop() == 0, job.tail()
        assert list(checkpoint.iterdir()) == []
