"""What befalls an ingest job in its life, each once, into each kind of table: every message one row, or a clear stop.

killed between the table's commit and Spark's · checkpoint lost · start expired · topic made anew · poison rows ·
disk full under table, checkpoint and Spark · two jobs on one table · two jobs on one checkpoint
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.faults.collect import Count
from tests.faults.ingest_lab import PATIENCE_SECONDS, TOPIC, IngestLab, Publisher
from tests.support.kills.kill_after import kill_after, killed
from tests.support.processes import Running, wait_until
from tests.support.tables.object_store import ObjectStore
from tests.support.topics.messaging_service import MessagingService, upstream_message

from fairlead_ingest.io.table import tables

ROOM = "ingest"
ROWS = 40
SMALL_DISK_BYTES = 24 * 1024 * 1024
# Long enough for retries to go wrong, short of the last one.
FULL_SECONDS = 20.0


def killed_between_commits(lab: IngestLab) -> Count:
    """The table has the batch, Spark does not know it."""
    modules = ["fairlead_ingest.io.table.delta"]
    environ = kill_after(lab.folder, modules, "append", "args[0].name == 'rows' and args[1]")
    _publish(lab, 0)
    job = lab.start(environ=environ)
    wait_until("the JVM was killed", lambda: killed(lab.folder), seconds=PATIENCE_SECONDS, describe=job.tail)
    job.process.wait(PATIENCE_SECONDS)
    job.kill()
    planned = {entry.name for entry in (lab.checkpoint / "offsets").iterdir() if entry.name.isdigit()}
    known = {entry.name for entry in (lab.checkpoint / "commits").iterdir() if entry.name.isdigit()}
    assert planned - known, "the kill came too late: Spark knows the batch"
    assert lab.count() == ROWS, "the kill came too early: the table does not have the batch"
    _publish(lab, ROWS)
    job = lab.start()
    lab.filled(job, 2 * ROWS)
    job.stop()
    return lab.verdict(1, 2 * ROWS)


def checkpoint_lost(lab: IngestLab) -> Count:
    """The table knows how far it is."""
    publisher = Publisher(lab.service)
    publisher.start()
    job = lab.start()
    lab.grown(job)
    job.kill()
    shutil.rmtree(lab.checkpoint)
    job = lab.start()
    lab.grown(job)
    acknowledged = publisher.finish()
    lab.filled(job, acknowledged)
    job.stop()
    return lab.verdict(1, acknowledged)


def start_expired(lab: IngestLab) -> Count:
    """Counted, each one; what lived on is there."""
    _publish(lab, 0)
    job = lab.start()
    lab.filled(job, ROWS)
    job.kill()
    lab.service.publish(TOPIC, [upstream_message(-number - 1) for number in range(7)], ttl=1)
    time.sleep(2.0)  # a time to live is a time
    _publish(lab, ROWS)
    job = lab.start(on_expired="gap")
    lab.filled(job, 2 * ROWS)
    job.stop()
    table_format = tables.of(lab.sink)
    totals = [entry.info.totals for entry in table_format.last_entries(lab.table, 20) if entry.info is not None]
    return lab.verdict(1, 2 * ROWS, untrue=abs(totals[0].expired_unread - 7))


def topic_made_anew(lab: IngestLab) -> Count:
    """A stop with its code; told to go on, with a gap row for what is gone."""
    _publish(lab, 0)
    job = lab.start()
    lab.filled(job, ROWS)
    job.stop()
    lab.service.delete(TOPIC)
    lab.service.create(TOPIC)
    _publish(lab, ROWS)
    _stops(lab.start(), "FAIRLEAD_TOPIC_RECREATED")
    job = lab.start(on_recreated="restart")
    lab.filled(job, 2 * ROWS)
    job.stop()
    return lab.verdict(1, 2 * ROWS, untrue=abs(lab.rows("_gaps").height - 1))


def poison_rows(lab: IngestLab) -> Count:
    """Each a dead letter with its payload, and no other row pays."""
    choice = random.Random(str(lab.table))
    poison = [choice.randbytes(choice.randrange(1, 200)) for _ in range(ROWS)]
    poison += [b"", b"null", b"[" * 5000, b'{"id": "x"}', b'{"id": 1e999}', '{"id": "\ud800"}'.encode(errors="replace")]
    good = [upstream_message(number) for number in range(ROWS)]
    mixed = [*good, *poison]
    choice.shuffle(mixed)
    lab.service.publish(TOPIC, mixed)
    job = lab.start()
    lab.filled(job, ROWS)
    dead = lab.rows("_dead_letters")
    job.stop()
    missing = len(set(poison) ^ set(dead["payload"].to_list())) + abs(dead.height - len(poison))
    return lab.verdict(1, ROWS, untrue=missing)


def disk_full(lab: IngestLab) -> Count:
    """Under all of the job: it waits, says so by code, survives a kill meanwhile, and goes on when there is room."""
    with _small_disk(lab.folder / "small") as disk:
        lab.disk = disk
        publisher = Publisher(lab.service)
        publisher.start()
        job = lab.start()
        lab.grown(job)
        ballast = disk / "ballast"
        _fill(ballast)
        wait_until(
            "the job says that the disk is full",
            lambda: "FAIRLEAD_DISK_FULL" in job.log.read_text(),
            seconds=PATIENCE_SECONDS,
            every=0.5,
            describe=job.tail,
        )
        time.sleep(FULL_SECONDS)
        job.require_alive()
        job.kill()
        ballast.unlink()
        job = lab.start()
        lab.grown(job)
        acknowledged = publisher.finish()
        lab.filled(job, acknowledged)
        job.stop()
        return lab.verdict(1, acknowledged)


def two_jobs_on_one_table(lab: IngestLab) -> Count:
    """One goes on, the other stops and says why."""
    publisher = Publisher(lab.service)
    publisher.start()
    first = lab.start("first")
    second = lab.start("second", checkpoint=str(lab.folder / "other"))
    wait_until(
        "one has stopped", lambda: not (first.alive and second.alive), seconds=PATIENCE_SECONDS, describe=first.tail
    )
    stopped, left = (first, second) if not first.alive else (second, first)
    _stops(stopped, "FAIRLEAD_TABLE_TAKEN")
    lab.grown(left)
    acknowledged = publisher.finish()
    lab.filled(left, acknowledged)
    left.stop()
    return lab.verdict(1, acknowledged)


def two_jobs_on_one_table_in_store(lab: IngestLab) -> Count:
    """Both with checkpoints of their own there, begun at the same moment, the loser once more: each time one stops and
    says why (one that has planned nothing yet may take over), the other goes on, at last also after a kill."""
    assert lab.store is not None
    places = {name: str(lab.store.place(name)) for name in ("one", "other")}
    publisher = Publisher(lab.service)
    publisher.start()
    jobs = {name: lab.start(name, checkpoint=place) for name, place in places.items()}
    lost = _first_to_stop(jobs)
    jobs[lost] = lab.start(lost, checkpoint=places[lost])
    lost = _first_to_stop(jobs)
    won = next(name for name in jobs if name != lost)
    lab.grown(jobs[won])
    jobs[won].kill()
    left = lab.start(won, checkpoint=places[won])
    lab.grown(left)
    acknowledged = publisher.finish()
    lab.filled(left, acknowledged)
    left.stop()
    return lab.verdict(1, acknowledged)


def _first_to_stop(jobs: dict[str, Running]) -> str:
    wait_until(
        "one has stopped",
        lambda: not all(job.alive for job in jobs.values()),
        seconds=PATIENCE_SECONDS,
        describe=lambda: "".join(job.tail() for job in jobs.values()),
    )
    lost = next(name for name, job in jobs.items() if not job.alive)
    _stops(jobs[lost], "FAIRLEAD_TABLE_TAKEN")
    return lost


def two_jobs_on_one_checkpoint(lab: IngestLab) -> Count:
    """As when a pod is replaced and the old one does not go: also with both writing, each message is one row."""
    publisher = Publisher(lab.service)
    publisher.start()
    first = lab.start("first")
    lab.grown(first)
    job = lab.start("second")
    wait_until("both have met", lambda: _has_met(first) or _has_met(job), seconds=PATIENCE_SECONDS, describe=job.tail)
    first.kill()
    lab.grown(job)
    acknowledged = publisher.finish()
    lab.filled(job, acknowledged)
    job.stop()
    return lab.verdict(1, acknowledged)


def machines_lost(lab: IngestLab) -> Count:
    """The checkpoint lies in the store; each start has an empty folder, as on another machine: killed when the state is
    up, when the page is, when the table has the batch and Spark does not know it."""
    publisher = Publisher(lab.service)
    publisher.start()
    steps = [
        ("fairlead_ingest.io.checkpoint.checkpoint_mirror", "_upload", "True"),
        ("fairlead_ingest.io.checkpoint.checkpoint_mirror", "save", "True"),
        ("fairlead_ingest.io.table.delta", "append", "args[0].name == 'rows' and args[1]"),
    ]
    for number, (module, function, condition) in enumerate(steps):
        folder = lab.folder / f"step-{number}"
        folder.mkdir()
        job = lab.start(dedupe_seconds=3600, environ=kill_after(folder, [module], function, condition))
        wait_until("the JVM was killed", partial(killed, folder), seconds=PATIENCE_SECONDS, describe=job.tail)
        job.process.wait(PATIENCE_SECONDS)
        job.kill()
    job = lab.start(dedupe_seconds=3600)
    lab.grown(job)
    acknowledged = publisher.finish()
    lab.filled(job, acknowledged)
    job.stop()
    assert "checkpoint_restored" in job.log.read_text(), job.tail()
    return lab.verdict(len(steps), acknowledged)


def two_machines_at_once(lab: IngestLab) -> Count:
    """Each with a copy of the same checkpoint: the table refuses one of them."""
    publisher = Publisher(lab.service)
    publisher.start()
    first = lab.start("first")
    lab.grown(first)
    second = lab.start("second")
    wait_until(
        "one has stopped", lambda: not (first.alive and second.alive), seconds=PATIENCE_SECONDS, describe=first.tail
    )
    stopped, left = (first, second) if not first.alive else (second, first)
    _stops(stopped, "FAIRLEAD_TABLE_TAKEN")
    lab.grown(left)
    left.kill()
    job = lab.start()
    lab.grown(job)
    acknowledged = publisher.finish()
    lab.filled(job, acknowledged)
    job.stop()
    return lab.verdict(1, acknowledged)


MISHAPS: tuple[Callable[[IngestLab], Count], ...] = (
    killed_between_commits,
    checkpoint_lost,
    start_expired,
    topic_made_anew,
    poison_rows,
    disk_full,
    two_jobs_on_one_table,
    two_jobs_on_one_checkpoint,
)
IN_STORE = "delta in a store"
STORIES = [
    *((mishap, "delta") for mishap in MISHAPS),
    (machines_lost, IN_STORE),
    (two_machines_at_once, IN_STORE),
    (two_jobs_on_one_table_in_store, IN_STORE),
]
KILLS = len(STORIES)


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """The first `kills` stories, in an order chosen by `seed`; their sums."""
    order = random.Random(seed).sample(STORIES, len(STORIES))
    total = Count(kills=0, acknowledged=0, lost=0, duplicated=0, untrue=0)
    for mishap, sink in order[:kills]:
        count = tell(mishap, sink)
        progress(f"  {mishap.__name__}, {sink}: {count}")
        total = Count(**{key: total[key] + count[key] for key in total})  # type: ignore[literal-required,typeddict-item]
    return total


def tell(mishap: Callable[[IngestLab], Count], sink: str) -> Count:
    """One story, in a folder and with a service of its own."""
    with tempfile.TemporaryDirectory(prefix="fairlead-faults-") as name:
        folder = Path(name)
        with MessagingService(folder / "messaging") as service:
            service.create(TOPIC)
            with ObjectStore(folder / "store") if sink == IN_STORE else contextlib.nullcontext() as store:
                lab = IngestLab(folder, service, sink=sink.partition(" ")[0], store=store)
                try:
                    return mishap(lab)
                finally:
                    lab.close()


def _publish(lab: IngestLab, first: int) -> None:
    lab.service.publish(TOPIC, [upstream_message(first + number) for number in range(ROWS)])


def _has_met(job: Running) -> bool:
    job.require_alive()
    return "FAIRLEAD_CHECKPOINT_TAKEN" in job.log.read_text()


def _stops(job: Running, code: str) -> None:
    """The job ends by itself with 1, and says why."""
    status = job.process.wait(PATIENCE_SECONDS)
    assert status == 1, f"{job.name} ended with {status}\n{job.tail()}"
    assert code in job.log.read_text(), f"no word of {code}\n{job.tail()}"


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, small. Needs the right to mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "fairlead-faults", str(folder)]
    subprocess.run(command, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(path: Path) -> None:
    """Take all the room there is, to the last byte."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
