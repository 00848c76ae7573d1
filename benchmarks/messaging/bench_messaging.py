"""Messaging, measured from outside: the program as a process, prepared requests, RocksDB with its synced log.

Every figure of one run is taken on the same machine and disk; NATS JetStream with sync-always is built from its pinned
Go module and gets the same messages over the same number of connections.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvloop
from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.topics.messaging_program import MessagingProgram

from benchmarks.collect import Row
from benchmarks.goals import GOALS
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.sync_client import BulkClient

ROOM = "messaging"
ROOT = Path(__file__).resolve().parents[2]
NATS_MODULE = "github.com/nats-io/nats-server/v2@v2.15.2"
NATS_BUILD_SECONDS = 600.0
PAYLOAD_BYTES = 1024
SECONDS = 5.0
SINGLE_CONNECTIONS = 64
BATCH_CONNECTIONS = 16
BATCH = 100
READ_MESSAGES = 200_000
BULK_READERS = 2
WAKES = 400
EXPIRED_MESSAGES = 10_000_000
EXPIRED_MIXED = 1_000_000
EXPIRED_BATCH = 10_000
EMPTY_POLLS = 400
READERS = 100
READERS_MESSAGES = 20_000
TOPIC = "/v1/namespaces/default/topics/{}/publish"


def rows() -> Iterator[Row]:
    """Every goal row of the room, in the order of the goals."""
    with (
        tempfile.TemporaryDirectory() as name,
        MessagingProgram(Path(name), more="[cleanup]\ninterval_seconds = 2") as program,
    ):
        folder = Path(name)
        single = _publish(program, folder, "single", SINGLE_CONNECTIONS, 1)
        yield _row("msg.single", single["rate"], "messages/s", single["rate"] >= 10_000 and single["p99"] <= 0.05)
        batch = _publish(program, folder, "batch", BATCH_CONNECTIONS, BATCH)
        yield _row("msg.batch", batch["rate"], "messages/s", batch["rate"] >= 60_000)
        yield from _against_nats(folder, single["rate"])
        yield from _poll(program)
        yield from _wake(program)
        yield from _expired(program)
        yield from _readers(program)


def _row(
    name: str, value: float | None, unit: str, met: bool, baseline: float | None = None, ratio: float | None = None
) -> Row:
    goal = next(goal for key, goal in GOALS[ROOM].items() if name.startswith(key))
    return Row(name=name, value=value, unit=unit, goal=goal, met=met, baseline=baseline, ratio=ratio)


def _load(kind: str, port: int, connections: int, path: str, body: Path, seconds: float = SECONDS) -> dict[str, float]:
    command = [
        sys.executable, "-m", "benchmarks.messaging.load", kind, str(port), str(connections), str(seconds), path,
        str(body),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds + 60, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _publish(program: MessagingProgram, folder: Path, topic: str, connections: int, batch: int) -> dict[str, float]:
    """Rate in messages/s and the 99th percentile of a request's wait, in seconds."""
    _create(program, topic)
    body = folder / f"{topic}.json"
    body.write_text(json.dumps({"messages": [_payload() for _ in range(batch)]}))
    _load("HTTP", program.port, connections, TOPIC.format(topic), body, 1.0)
    found = _load("HTTP", program.port, connections, TOPIC.format(topic), body)
    return {"rate": found["requests"] * batch / found["seconds"], "p99": found["p99"]}


def _payload() -> str:
    return base64.b64encode(os.urandom(PAYLOAD_BYTES)).decode()


def _create(program: MessagingProgram, topic: str, **properties: Any) -> None:
    async def create() -> None:
        async with AsyncClient(program.url) as client:
            await client.create_topic("default", topic, properties)

    asyncio.run(create())


def _against_nats(folder: Path, ours: float) -> Iterator[Row]:
    server = _nats_server()
    if server is None:
        yield _row("msg.nats", ours, "messages/s", False)
        return
    [port] = free_ports(1)
    config = folder / "nats.conf"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}/nats", sync_interval: always }}\n'
    )
    with _running("nats", [str(server), "-c", str(config)], folder / "nats.log") as running:
        wait_until("NATS serves JetStream", lambda: "Server is ready" in running.log.read_text(), seconds=30)
        body = folder / "stream.json"
        body.write_text(json.dumps({"name": "bench", "subjects": ["bench"], "storage": "file", "retention": "limits"}))
        _load("NATS", port, 1, "$JS.API.STREAM.CREATE.bench", body, 0.0)
        payload = folder / "payload"
        payload.write_bytes(os.urandom(PAYLOAD_BYTES))
        _load("NATS", port, SINGLE_CONNECTIONS, "bench", payload, 1.0)
        found = _load("NATS", port, SINGLE_CONNECTIONS, "bench", payload)
    theirs = found["requests"] / found["seconds"]
    yield _row("msg.nats", ours, "messages/s", ours >= theirs, theirs, ours / theirs)


def _nats_server() -> Path | None:
    """The built server, once for this machine; None without Go."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fairlead" / "nats"
    built = cache / "nats-server"
    if built.exists():
        return built
    if shutil.which("go") is None:
        print("msg.nats: Go is not installed, NATS cannot be built", file=sys.stderr)
        return None
    environ = {**os.environ, "GOBIN": str(cache)}
    done = subprocess.run(
        ["go", "install", NATS_MODULE], env=environ, capture_output=True, text=True, timeout=NATS_BUILD_SECONDS
    )
    if done.returncode:
        print(f"msg.nats: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return built


@contextlib.contextmanager
def _running(name: str, command: list[str], log: Path) -> Iterator[Running]:
    running = start(name, command, log)
    try:
        yield running
    finally:
        running.stop()


def _fill(program: MessagingProgram, topic: str, messages: int, ttl: int | None = None) -> None:
    """Publish ``messages`` of 1 KiB (tiny when they are only there to expire)."""
    payload = b"x" * 16 if messages > READ_MESSAGES else os.urandom(PAYLOAD_BYTES)
    count = EXPIRED_BATCH if messages > READ_MESSAGES else 1000

    async def fill() -> None:
        async with AsyncClient(program.url) as client:
            pending: set[asyncio.Task[Any]] = set()
            for _ in range(messages // count):
                if len(pending) >= 4:
                    _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                pending.add(asyncio.create_task(client.publish("default", topic, [payload] * count, ttl_seconds=ttl)))
            await asyncio.gather(*pending)

    uvloop.run(fill())


def _poll(program: MessagingProgram) -> Iterator[Row]:
    _create(program, "read")
    _fill(program, "read", READ_MESSAGES)
    program.stop()
    program.start()
    rates: dict[str, float] = {}
    for heat in ("cold", "hot"):
        rates[f"arrow.{heat}"] = _read_arrow(program, "read")
        rates[f"json.{heat}"] = _read_json(program, "read")
    for name, rate in rates.items():
        yield _row(f"msg.poll.{name}", rate, "messages/s", rate >= (300_000 if name.startswith("arrow") else 50_000))
    met = all(rate >= (300_000 if name.startswith("arrow") else 50_000) for name, rate in rates.items())
    yield _row("msg.poll", min(rates["arrow.cold"], rates["arrow.hot"]), "messages/s", met)


def _read_arrow(program: MessagingProgram, topic: str) -> float:
    """As Spark reads: a plan split in two, each range by a reader of its own."""

    def read(after: str, upto: str) -> int:
        count = 0
        with BulkClient(program.url) as client:
            while after != upto:
                page = client.poll(f"default/{topic}", after=after, upto=upto)
                count += page.table.num_rows
                after = page.next_position
        return count

    began = time.monotonic()
    with BulkClient(program.url) as client, ThreadPoolExecutor(BULK_READERS) as readers:
        ranges = client.plan(f"default/{topic}", after="", splits=BULK_READERS).ranges
        count = sum(readers.map(lambda each: read(each.after, each.upto), ranges))
    return count / (time.monotonic() - began)


def _read_json(program: MessagingProgram, topic: str) -> float:
    async def read() -> float:
        began, count, position = time.monotonic(), 0, None
        async with AsyncClient(program.url) as client:
            while True:
                page = await client.poll("default", topic, start_from=position, inclusive=False)
                if not page.messages:
                    return count / (time.monotonic() - began)
                count += len(page.messages)
                position = page.next_position

    return uvloop.run(read())


def _wake(program: MessagingProgram) -> Iterator[Row]:
    _create(program, "wake")

    async def wake() -> float:
        waits = []
        async with AsyncClient(program.url) as reader, AsyncClient(program.url) as writer:
            position = (await reader.poll("default", "wake")).next_position
            for _ in range(WAKES):
                waiting = asyncio.create_task(
                    reader.poll("default", "wake", start_from=position, inclusive=False, wait_ms=10_000)
                )
                await asyncio.sleep(0.005)
                began = time.perf_counter()
                publishing = asyncio.create_task(writer.publish("default", "wake", [b"x" * PAYLOAD_BYTES]))
                position = (await waiting).next_position
                waits.append(time.perf_counter() - began)
                await publishing
        return sorted(waits)[int(len(waits) * 0.99)] * 1000

    p99 = uvloop.run(wake())
    yield _row("msg.wake", p99, "ms", p99 <= 20)


def _expired(program: MessagingProgram) -> Iterator[Row]:
    """Both fillings expire, cleanup passes, and polls are timed in turn with polls on topics that never had them.

    The topic with message ttls keeps a thousand living messages behind the expired ones, and so does its counterpart.
    """
    for topic in ("empty", "fresh", "mixed"):
        _create(program, topic)
    _create(program, "expired", ttl=3600)
    _fill(program, "expired", EXPIRED_MESSAGES)
    _fill(program, "mixed", EXPIRED_MIXED, ttl=2)
    for topic in ("mixed", "fresh"):
        _fill(program, topic, 1000)

    async def expire() -> None:
        async with AsyncClient(program.url) as client:
            await client.update_topic("default", "expired", {"ttl": 1})

    asyncio.run(expire())
    _await_cleanup(program)
    took = _poll_medians_ms(program, ("empty", "expired", "fresh", "mixed"))
    for name, ours, theirs in (("topic_ttl", "expired", "empty"), ("message_ttl", "mixed", "fresh")):
        ratio = took[ours] / took[theirs]
        yield _row(f"msg.expired.{name}", took[ours], "ms", ratio <= 1.2, took[theirs], ratio)
    worst = max(took["expired"] / took["empty"], took["mixed"] / took["fresh"])
    yield _row("msg.expired", worst, "x", worst <= 1.2, 1.0, worst)


def _await_cleanup(program: MessagingProgram) -> None:
    """Until a whole pass that began after everything expired is over."""
    time.sleep(2.5)  # what was published last has two seconds to live; this is the time itself, not a condition
    passes = _metric(program, "cleanups_total")
    wait_until("cleanup is done", lambda: _metric(program, "cleanups_total") >= passes + 2, seconds=300)


def _metric(program: MessagingProgram, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{program.health_port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"fairlead_messaging_{name} "))


def _poll_medians_ms(program: MessagingProgram, topics: tuple[str, ...]) -> dict[str, float]:
    """Taken in turn, so that whatever else the machine does falls on all of them."""

    async def poll() -> dict[str, float]:
        waits: dict[str, list[float]] = {topic: [] for topic in topics}
        async with AsyncClient(program.url) as client:
            for number in range(EMPTY_POLLS):
                for topic in topics:
                    began = time.perf_counter()
                    # Each time another start long ago, so that the store answers and not the cache.
                    await client.poll("default", topic, start_from=number, limit=1)
                    waits[topic].append(time.perf_counter() - began)
        return {topic: sorted(each)[len(each) // 2] * 1000 for topic, each in waits.items()}

    return uvloop.run(poll())


def _readers(program: MessagingProgram) -> Iterator[Row]:
    """Server CPU per message read: many readers of the newest messages against one."""
    _create(program, "many")
    _fill(program, "many", READERS_MESSAGES)
    one = _cpu_per_message(program, 1)
    many = _cpu_per_message(program, READERS)
    yield _row("msg.readers", many * 1e6, "µs/message", many <= 0.3 * one, one * 1e6, many / one)


def _cpu_per_message(program: MessagingProgram, readers: int) -> float:
    pid = program.running.pid

    async def read(client: AsyncClient) -> int:
        count, position = 0, None
        while True:
            page = await client.poll("default", "many", start_from=position, inclusive=False, limit=1000)
            if not page.messages:
                return count
            count += len(page.messages)
            position = page.next_position

    async def read_all() -> int:
        async with AsyncClient(program.url) as client:
            return sum(await asyncio.gather(*(read(client) for _ in range(readers))))

    before = _cpu_seconds(pid)
    count = uvloop.run(read_all())
    return (_cpu_seconds(pid) - before) / count


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
