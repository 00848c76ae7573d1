"""A job on a standalone Spark cluster whose master writes nothing down: started again, it knows no application.

It ends the job's executors, and gives it no others; the job asks it anew by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.faults import fault_ingest_cluster
from tests.faults.collect import Count
from tests.faults.fault_ingest_cluster import DRIVER, MASTER
from tests.faults.ingest_lab import PATIENCE_SECONDS, Publisher
from tests.support.processes import Running, wait_until

ROOM = "ingest"
KILLS = 3
SAID = "spark_away"


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Kill the master `kills` times, and once the job while none of its executors is left; then count.

    `seed` chooses nothing: each kill comes when rows arrive.
    """
    with fault_ingest_cluster.opened(remembers=False) as cluster:
        job = cluster.start()
        publisher = Publisher(cluster.service)
        publisher.start()
        try:
            for number in range(kills):
                cluster.lab.grown(job)
                said = job.log.read_text().count(SAID)
                job = cluster.kill(MASTER, job)
                _until_none(cluster, job.tail)
                if number == 1:
                    job = cluster.kill(DRIVER, job)
                else:
                    _until_said(job, said)
                cluster.lab.grown(job)
                progress(f"  master {number + 1} of {kills} forgot the job, {cluster.lab.count()} rows so far")
            acknowledged = publisher.finish()
            cluster.lab.filled(job, acknowledged)
            assert job.stop() == 0, job.tail()
            return cluster.lab.verdict(kills, acknowledged)
        finally:
            cluster.lab.close()
            if publisher.is_alive():
                publisher.finish()


def _until_none(cluster: fault_ingest_cluster.ClusterLab, tail: Callable[[], str]) -> None:
    wait_until(
        "its executors are ended", lambda: not cluster.spark.executors(), seconds=PATIENCE_SECONDS, describe=tail
    )


def _until_said(job: Running, said: int) -> None:
    wait_until(
        "the job asks again",
        lambda: job.log.read_text().count(SAID) > said,
        seconds=PATIENCE_SECONDS,
        describe=job.tail,
    )
