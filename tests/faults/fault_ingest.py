"""A stream into a table while driver, JVM, executors, workers and messaging are killed: each message one row.

    publisher (numbered, repeats until stored) ──► messaging ──► ingest ──► table
                                                   kill -9       kill -9 of driver, JVM, executor or worker

Executors are processes of their own here, as on a cluster; the kind of table, and whether it lies in a folder or in an
object store (which is killed, too), is the seed's choice.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from tests.faults.collect import Count
from tests.faults.ingest_lab import PATIENCE_SECONDS, TOPIC, IngestLab, Publisher, descendants, kill_process
from tests.support.processes import Running
from tests.support.tables.object_store import ObjectStore
from tests.support.topics.messaging_service import MessagingService

ROOM = "ingest"
KILLS = 20
PLACES = ("delta", "delta in a store")
# Victim → what its command line says.
PROCESSES = {
    "jvm": "org.apache.spark.deploy.SparkSubmit",
    "executor": "CoarseGrainedExecutorBackend",
    "worker": "pyspark.daemon",
}
VICTIMS = ("driver", "messaging", *PROCESSES)
STORE = "store"
MASTER = "local-cluster[2,1,1024]"
# A kill comes at a random moment of this span after a commit was seen.
SPAN_SECONDS = 1.5


def run(kills: int, seed: int, progress: Callable[[str], None], *, sink: str | None = None) -> Count:
    """Kill `kills` times at moments and of victims chosen by `seed`, then count; `sink`: one of `PLACES`."""
    choice = random.Random(seed)
    place = sink or choice.choice(PLACES)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-faults-")))
        store = stack.enter_context(ObjectStore(folder / "store")) if place.endswith(STORE) else None
        victims = VICTIMS if store is None else (*VICTIMS, STORE, STORE)
        with MessagingService(folder / "messaging") as service:
            service.create(TOPIC)
            lab = IngestLab(folder, service, sink=place.partition(" ")[0], master=MASTER, store=store)
            ingest = lab.start()
            publisher = Publisher(service)
            publisher.start()
            try:
                for number in range(kills):
                    lab.grown(ingest)
                    victim = choice.choice(victims)
                    threading.Event().wait(choice.random() * SPAN_SECONDS)
                    if victim == STORE and store is not None:
                        store.kill()
                        threading.Event().wait(choice.random() * SPAN_SECONDS)
                        store.start()
                    else:
                        ingest = _kill(victim, ingest, lab)
                    progress(f"  kill {number + 1} of {kills}: {victim}, {lab.count()} rows of {place} so far")
                acknowledged = publisher.finish()
                lab.filled(ingest, acknowledged)
                ingest.stop()
                unread = lab.rows("_dead_letters").height + lab.rows("_gaps").height + lab.not_in_latest()
                return lab.verdict(kills, acknowledged, untrue=unread)
            finally:
                lab.close()
                if publisher.is_alive():
                    publisher.finish()


def _kill(victim: str, ingest: Running, lab: IngestLab) -> Running:
    if victim == "messaging":
        lab.service.kill()
        lab.service.start()
        return ingest
    if victim == "driver":
        ingest.kill()
        return lab.start()
    pids = [pid for pid, command in descendants(ingest.pid).items() if PROCESSES[victim] in command]
    if pids:
        kill_process(pids[-1])
    if victim == "jvm":
        # The program says that Spark died and ends; its supervisor, here, starts it again.
        ingest.process.wait(PATIENCE_SECONDS)
        ingest.kill()
        return lab.start()
    return ingest
