"""A job on a standalone Spark cluster, over mutual TLS into an object store, while everything is killed.

publisher ──► messaging (mTLS) ──► executors of two workers ──► one table in a store
              kill -9              kill -9 of executor, worker, master, driver; of messaging and the store
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.faults.collect import Count
from tests.faults.ingest_lab import PATIENCE_SECONDS, TOPIC, IngestLab, Publisher, kill_process
from tests.support.joining.pki import Authority
from tests.support.processes import Running, wait_until
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.spark_standalone import Standalone
from tests.support.topics.messaging_service import MessagingService

ROOM = "ingest"
KILLS = 12
EXECUTOR, WORKER, MASTER, DRIVER = "executor", "worker", "master", "driver"
VICTIMS = (EXECUTOR, WORKER, MASTER, DRIVER, "messaging", "store")
# A kill comes at a random moment of this span after a commit was seen.
SPAN_SECONDS = 1.5


class ClusterLab:
    """Messaging, store and cluster, each a process or more, and the job's settings for them."""

    def __init__(self, folder: Path, service: MessagingService, store: ObjectStore, spark: Standalone) -> None:
        self.service, self.store, self.spark = service, store, spark
        self.lab = IngestLab(folder, service, sink="delta", master=spark.url, store=store)

    def start(self, **changes: Any) -> Running:
        tls = self.service.tls
        assert tls is not None
        return self.lab.start(
            **{"security": "mtls", "tls_ca": tls.ca, "tls_cert": tls.cert, "tls_key": tls.key, **changes}
        )

    def kill(self, victim: str, job: Running) -> Running:
        """Kill, and start again what its supervisor would; the job that goes on."""
        if victim == EXECUTOR:
            for pid in list(self.spark.executors())[:1]:
                kill_process(pid)
        elif victim == WORKER:
            self.spark.kill_worker(0)
            self.spark.start_worker(0)
        elif victim == MASTER:
            self.spark.kill_master()
            self.spark.start_master()
        elif victim == DRIVER:
            job.kill()
            return self.start()
        else:
            of = self.service if victim == "messaging" else self.store
            of.kill()
            of.start()
        return job


def run(kills: int, seed: int, progress: Callable[[str], None], *, victims: Sequence[str] = ()) -> Count:
    """Kill `kills` times at moments and of victims chosen by `seed` (or `victims`, in order), then count."""
    choice = random.Random(seed)
    chosen = list(victims) or [choice.choice(VICTIMS) for _ in range(kills)]
    with opened() as cluster:
        job = cluster.start()
        publisher = Publisher(cluster.service)
        publisher.start()
        try:
            for number, victim in enumerate(chosen):
                cluster.lab.grown(job)
                threading.Event().wait(choice.random() * SPAN_SECONDS)
                job = cluster.kill(victim, job)
                progress(f"  kill {number + 1} of {len(chosen)}: {victim}, {cluster.lab.count()} rows so far")
            cluster.lab.grown(job)
            wait_until(
                "both workers have an executor again",
                lambda: set(cluster.spark.executors().values()) == {0, 1},
                seconds=PATIENCE_SECONDS,
                describe=job.tail,
            )
            acknowledged = publisher.finish()
            cluster.lab.filled(job, acknowledged)
            assert job.stop() == 0, job.tail()
            unread = cluster.lab.rows("_dead_letters").height + cluster.lab.rows("_gaps").height
            return cluster.lab.verdict(len(chosen), acknowledged, untrue=unread)
        finally:
            cluster.lab.close()
            if publisher.is_alive():
                publisher.finish()


@contextlib.contextmanager
def opened(**spark: Any) -> Iterator[ClusterLab]:
    """All of it; `spark`: of the cluster."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-cluster-")))
        store = stack.enter_context(ObjectStore(folder / "store"))
        service = stack.enter_context(MessagingService(folder / "messaging", authority=Authority(folder / "authority")))
        cluster = stack.enter_context(Standalone(folder / "spark", **spark))
        service.create(TOPIC)
        lab = ClusterLab(folder, service, store, cluster)
        stack.callback(lab.lab.close)
        yield lab
