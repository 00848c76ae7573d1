"""The line up, measured on the real edge program; each figure beside its baseline in the same run.

    producer (own process) ─HTTP▶ fairlead edge run ─link▶ a hub that counts, or the real hub and messaging

Baselines: one message a request, one at a time (what durable acceptance costs without group commit); a raw WebSocket
echo and stop-and-wait of the same messages; the original's published or computed delays where it has to be named.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.edges.edge_line import CountingHub, EdgeProgram, telemetry
from tests.support.edges.silent_readers import LIST, fill, rss_mib, silent_readers
from tests.support.processes import wait_until
from tests.support.whole_line import WholeLine
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from benchmarks.collect import Row
from benchmarks.goals import GOALS

ROOM = "upstream"
SECONDS = 5
CONNECTIONS, BATCH = 2, 50
MESSAGE_BYTES = 1024
BACKLOG = 1_000_000
BACKLOG_REQUEST = 5_000
LOW_PRIORITY = 100_000
EXPIRED = 100_000
OUTAGES = {0: 3.4, 15: 13.9, 60: 1.0, 120: 53.3}
"""Seconds without a link → the original's drain delay, published for its own retry clock."""
ORIGINAL_SKIP_PER_SECOND = 10
"""The original passes over one batch of 100 expired messages in each 10 s while nothing new comes."""
READERS, COLLECTION_BYTES = 60, 16 * 1024 * 1024
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024


def rows() -> Iterator[Row]:
    """Yields each figure as it is measured; about five minutes in all."""
    yield from accepting()
    yield from backlog()
    yield readers()
    yield expired_run()
    yield from outages()
    yield from through()


def row(name: str, value: float, unit: str, met: bool, baseline: float | None, ratio: float | None) -> Row:
    return Row(name=name, value=value, unit=unit, goal=GOALS[ROOM][name], met=met, baseline=baseline, ratio=ratio)


@contextlib.contextmanager
def edge_alone() -> Iterator[tuple[EdgeProgram, CountingHub]]:
    """An edge that has its routes, and its hub."""
    with (
        tempfile.TemporaryDirectory() as folder,
        CountingHub() as hub,
        EdgeProgram(Path(folder), hub.port) as edge,
    ):
        edge.await_routes()
        yield edge, hub


def load(port: int, connections: int, batch: int, seconds: float, priorities: int = 1) -> dict[str, float]:
    """See ``benchmarks.upstream.load``."""
    arguments = [str(each) for each in (port, connections, batch, seconds, priorities)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.upstream.load", *arguments], capture_output=True, check=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def written(edge: EdgeProgram) -> int:
    """Bytes the process has sent to the disk."""
    lines = Path(f"/proc/{edge.pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def drain(edge: EdgeProgram, hub: CountingHub, count: int) -> float:
    """Mend the link; seconds until the hub holds ``count`` messages and the edge has noted it."""
    began = time.monotonic()
    hub.mend()
    hub.wait_for(count, 300)
    wait_until("the outbox drains", edge.drained, seconds=60, every=0.01)
    return time.monotonic() - began


# ---- accept, wear, queues ------------------------------------------------------------------------------------------


def accepting() -> Iterator[Row]:
    """Durable acceptance while the link is away; then what it wrote, and the same over eleven priorities."""
    with edge_alone() as (edge, hub):
        hub.cut()
        alone = load(edge.port, 1, 1, 2)
        before = written(edge), len(hub.stored)
        found = load(edge.port, CONNECTIONS, BATCH, SECONDS)
        rate = found["messages"] / found["seconds"]
        one_by_one = alone["messages"] / alone["seconds"]
        met = rate >= 10_000 and found["p99"] <= 0.020
        yield row(
            "up.accept", rate, f"messages/s, p99 {found['p99'] * 1000:.1f} ms", met, one_by_one, rate / one_by_one
        )
        total = int(alone["messages"] + found["messages"])
        took = found["seconds"] + drain(edge, hub, total)
        wear = (written(edge) - before[0]) / (found["messages"] * MESSAGE_BYTES)
        yield row("up.wear", wear, "bytes/byte, accepted and drained", wear <= 3, 1.0, wear)
    with edge_alone() as (edge, hub):
        hub.cut()
        many = load(edge.port, CONNECTIONS, BATCH, SECONDS, 11)
        many_took = many["seconds"] + drain(edge, hub, int(many["messages"]))
        one_rate, many_rate = found["messages"] / took, many["messages"] / many_took
        share = many_rate / one_rate
        yield row("up.queues", many_rate, "messages/s over 11 priorities", share >= 0.9, one_rate, share)


# ---- a million waiting ---------------------------------------------------------------------------------------------


def backlog() -> Iterator[Row]:
    """A million small messages wait; the agent is killed and started again."""
    with edge_alone() as (edge, hub):
        idle = rss_mib(edge.pid)
        hub.cut()
        first = edge.start_again()
        batch = [telemetry("none", {"n": number}) for number in range(BACKLOG_REQUEST)]
        for _ in range(BACKLOG // BACKLOG_REQUEST):
            edge.publish(batch)
        full = rss_mib(edge.pid)
        again = edge.start_again()
        length = sum(queue["length"] for queue in edge.status()["queues"])
        flat = full <= idle + 40
        yield row("up.backlog", again, f"s to start with {length:,} waiting", flat and again <= 2, first, again / first)
        yield row("up.rss", full, f"MiB, {idle:.0f} idle", idle <= 60 and full <= 100, idle, full / idle)


# ---- readers that do not read --------------------------------------------------------------------------------------


def readers() -> Row:
    """Lists and watches of 16 MiB that nobody reads, while messages are published; beside one list that is read."""
    with tempfile.TemporaryDirectory() as folder, CountingHub() as hub:
        asyncio.run(fill(Path(folder) / "data", COLLECTION_BYTES))
        with EdgeProgram(Path(folder), hub.port) as edge:
            edge.await_routes()
            edge.get(LIST)
            before = peak = rss_mib(edge.pid)
            slowest = 0.0
            with silent_readers(edge.port, READERS):
                until = time.monotonic() + SECONDS
                while time.monotonic() < until:
                    began = time.monotonic()
                    edge.publish([telemetry(1, {})])
                    slowest = max(slowest, time.monotonic() - began)
                    peak = max(peak, rss_mib(edge.pid))
    unit = f"MiB with {READERS} silent readers of 16 MiB, a publish took at most {slowest * 1000:.0f} ms"
    return row("up.readers", peak, unit, peak <= before + 60, before, peak / before)


# ---- an expired run ------------------------------------------------------------------------------------------------


def expired_run() -> Row:
    """A live message behind a hundred thousand whose time is over, all in one queue, on an idle link."""
    with edge_alone() as (edge, hub):
        hub.cut()
        batch = [telemetry("short", {"n": number}) for number in range(BACKLOG_REQUEST)]
        for _ in range(EXPIRED // BACKLOG_REQUEST):
            edge.publish(batch)

        def over() -> bool:
            return any(queue["expired"] >= EXPIRED for queue in edge.status()["queues"])

        wait_until("they expire", over, seconds=20)
        hub.mend()
        wait_until("the link is back", lambda: edge.status()["link"]["state"] == "connected", seconds=20, every=0.005)
        began = time.monotonic()
        edge.publish([telemetry(5, {"alive": True})])
        hub.wait_for(1, 60)
        took = time.monotonic() - began
        original = EXPIRED / ORIGINAL_SKIP_PER_SECOND
        return row("up.expired_run", took, "s until the live one arrived", took < 1, original, took / original)


# ---- outages -------------------------------------------------------------------------------------------------------


def outages() -> Iterator[Row]:
    """Links of several edges are cut for their time, side by side; one of them has a backlog and an alarm."""
    with ThreadPoolExecutor(len(OUTAGES) + 1) as threads, started(len(OUTAGES) + 1) as edges:
        delays = [
            threads.submit(outage, edge, hub, seconds) for (edge, hub), seconds in zip(edges, OUTAGES, strict=False)
        ]
        alarm = threads.submit(inversion, *edges[-1], max(OUTAGES))
        worst, seconds = max((delay.result(), seconds) for delay, seconds in zip(delays, OUTAGES, strict=True))
        before, took = alarm.result()
    worst_of_original = max(OUTAGES.values())
    unit = f"s at worst, after {seconds} s"
    yield row("up.recovery", worst, unit, worst <= 1, worst_of_original, worst / worst_of_original)
    yield row("up.inversion", took, f"s, {before} others before it", before == 0 and took < 1, 60.0, took / 60)


@contextlib.contextmanager
def started(count: int) -> Iterator[list[tuple[EdgeProgram, CountingHub]]]:
    """Several edges, each with its hub; started here, for a program dies with the thread that started it."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(edge_alone()) for _ in range(count)]


def outage(edge: EdgeProgram, hub: CountingHub, seconds: float) -> float:
    """Drain delay: from the moment the link could be had again until everything of the outage is at the hub."""
    hub.cut()
    sent = 0
    until = time.monotonic() + seconds
    while True:
        edge.publish([telemetry("none", {"n": sent + each}) for each in range(10)])
        sent += 10
        if time.monotonic() >= until:
            break
        time.sleep(min(1.0, max(0.0, until - time.monotonic())))
    hub.mend()
    began = time.monotonic()
    hub.wait_for(sent)
    return time.monotonic() - began


def inversion(edge: EdgeProgram, hub: CountingHub, seconds: float) -> tuple[int, float]:
    """How many others left before the first alarm, and how long after the link's return it was there."""
    hub.cut()
    began = time.monotonic()
    batch = [telemetry(9, {"n": number}) for number in range(BACKLOG_REQUEST)]
    for _ in range(LOW_PRIORITY // BACKLOG_REQUEST):
        edge.publish(batch)
    [alarm] = edge.publish([telemetry(0, {"alarm": True})])
    time.sleep(max(0.0, seconds - (time.monotonic() - began)))
    hub.mend()
    mended = time.monotonic()

    def arrived() -> bool:
        return any(id == alarm for _, id in list(hub.order[:LOW_PRIORITY]))

    wait_until("the alarm arrives", arrived, seconds=60, every=0.002)
    took = time.monotonic() - mended
    return [id for _, id in hub.order].index(alarm), took


# ---- end to end ----------------------------------------------------------------------------------------------------


def through() -> Iterator[Row]:
    """From the producer into the topic, through the real hub and the real messaging service."""
    echoed, waited = asyncio.run(echo())
    with tempfile.TemporaryDirectory() as folder, WholeLine(Path(folder)) as line:
        found: dict[str, float] = {}
        producer = threading.Thread(
            target=lambda: found.update(load(line.edge.port, CONNECTIONS, BATCH, SECONDS)), daemon=True
        )
        began = time.monotonic()
        producer.start()
        producer.join()
        wait_until("the line drains", line.edge.drained, seconds=120, every=0.01)
        rate = found["messages"] / (time.monotonic() - began)
        stored = len(line.in_topic())
    met = stored == found["messages"] and rate >= 0.6 * echoed and rate >= 20 * waited
    unit = f"messages/s, echo {echoed:,.0f}, stop-and-wait {waited:,.0f}"
    yield row("up.through", rate, unit, met, echoed, rate / echoed)


async def echo() -> tuple[float, float]:
    """The same messages over a raw WebSocket to another process and back: as fast as it goes, and one by one."""
    message = json.dumps(telemetry("none", {"pad": "x" * (MESSAGE_BYTES - 100)})).encode()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.upstream.bench_upstream", "echo", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        async with connect(f"ws://127.0.0.1:{port}", compression=None, max_queue=None) as link:
            return await _flood(link, message), await _stop_and_wait(link, message)
    finally:
        process.kill()
        await process.wait()


async def _flood(link: Any, message: bytes) -> float:
    count = 0
    until = time.monotonic() + SECONDS
    began = time.monotonic()
    while time.monotonic() < until:
        for _ in range(256):
            await link.send(message)
        for _ in range(256):
            await link.recv()
        count += 256
    return count / (time.monotonic() - began)


async def _stop_and_wait(link: Any, message: bytes) -> float:
    """One message, durable at the far end before its answer: each pays one flush of its own."""
    count = 0
    until = time.monotonic() + 2
    began = time.monotonic()
    with tempfile.TemporaryFile() as disk:
        while time.monotonic() < until:
            await link.send(message)
            await link.recv()
            disk.write(message)
            disk.flush()
            os.fdatasync(disk.fileno())
            count += 1
    return count / (time.monotonic() - began)


async def _echo_server(say: Callable[[str], None]) -> None:
    async def answer(connection: ServerConnection) -> None:
        async for frame in connection:
            await connection.send(frame)

    async with serve(answer, "127.0.0.1", 0, compression=None, max_queue=None) as server:
        say(str(next(iter(server.sockets)).getsockname()[1]))
        await server.wait_closed()


if __name__ == "__main__" and sys.argv[1:] == ["echo"]:
    asyncio.run(_echo_server(lambda text: print(text, flush=True)))
