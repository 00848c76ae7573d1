"""Files of a real agent's stores are damaged at random, while it runs, after kill -9 and after SIGTERM.

Laws: nothing reaches the hub, and nothing is served, that differs from what was accepted; what was answered 200 arrives
or is counted as damaged; objects that are lost come back; the agent neither logs a traceback nor ends while it runs.
"""

from __future__ import annotations

import json
import tempfile
import urllib.error
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.faults.collect import Count
from tests.support.edges.edge_line import CountingHub, EdgeProgram, telemetry
from tests.support.processes import wait_until
from tests.support.spoil import spoil

ROOM = "upstream"
KILLS = 40
FILES = (
    *("outbox.db", "outbox.db", "outbox.db-wal", "outbox.db.totals", "outbox.db.schema", "outbox.db.handed-out"),
    *("objects.db", "objects.db-wal", "objects.db.schema", "routes.copy"),
)
DRAIN_SECONDS = 120.0


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """``kills`` agents, each with a disk that fails once."""
    total = Count(kills=0, acknowledged=0, lost=0, duplicated=0, untrue=0)
    for number in range(kills):
        with tempfile.TemporaryDirectory() as folder:
            one = _one(Path(folder), seed + number)
        for key, value in one.items():
            total[key] += value  # type: ignore[literal-required]
        if (number + 1) % 10 == 0:
            progress(f"  {number + 1} disks, {total['acknowledged']} answered, lost {total['lost']}")
    return total


def _one(folder: Path, seed: int) -> Count:
    random = Random(seed)
    answered: dict[int, str] = {}
    with CountingHub() as hub, EdgeProgram(folder, hub.port) as edge:
        edge.await_routes()
        if random.random() < 0.7:
            hub.cut()
        for _ in range(random.choice((3, 20, 60))):
            _publish(edge, answered, random)
        how = random.choice(("running", "kill", "stop"))
        if how == "kill":
            edge.kill()
        elif how == "stop":
            edge.stop()
        there = [edge.folder / "data" / name for name in FILES]
        done = [
            spoil(random.choice([each for each in there if each.exists()]), random)
            for _ in range(random.choice((1, 3)))
        ]
        if how != "running":
            edge.start()
        wait_until("it serves", lambda: _serves(edge), seconds=120)
        hub.mend()
        for _ in range(3):
            _publish(edge, answered, random)
        wait_until(f"seed {seed}, {how}: it drains after {done}", lambda: _drained(edge), seconds=DRAIN_SECONDS)
        edge.start_again()
        wait_until("it drains again", lambda: _drained(edge), seconds=DRAIN_SECONDS)
        queues = edge.status()["queues"]
        damaged = sum(queue["damaged"] for queue in queues)
        log = (edge.folder / "edge.log").read_text()
        arrived: dict[int, str] = {}
        wrong = 0
        for each in hub.messages():
            body = json.loads(bytes(each.body)) if each.source != "/fairlead/gaps" else {}
            if isinstance(body, dict) and "n" in body:
                wrong += answered.get(body["n"], body["pad"]) != body["pad"]
                arrived[body["n"]] = body["pad"]
        missing = len(set(answered) - set(arrived))
        routes = json.loads(edge.get("/apis/fairlead.dev/v1alpha1/edgeroutes"))["items"]
        untrue = wrong + sum("Traceback" in line or '"traceback"' in line for line in log.splitlines())
        untrue += [each["metadata"]["name"] for each in routes] != ["all"]
        untrue += sum(
            queue["accepted"]
            != queue["sent"] + queue["expired"] + queue["evicted"] + queue["deadLettered"] + queue["damaged"]
            for queue in queues
        )
        if untrue or missing > damaged:
            raise AssertionError(
                f"seed {seed}, {how}, {done}: wrong {untrue}, missing {missing}, counted {damaged}\n{log}"
            )
        return Count(kills=1, acknowledged=len(answered), lost=0, duplicated=0, untrue=untrue)


def _publish(edge: EdgeProgram, answered: dict[int, str], random: Random) -> None:
    first = len(answered)
    numbers = range(first, first + random.choice((1, 5, 30)))
    pads = {number: random.randbytes(random.choice((0, 30, 700))).hex() for number in numbers}
    batch = [telemetry(random.choice((0, 5, "none")), {"n": number, "pad": pads[number]}) for number in numbers]

    def accepted() -> bool:
        assert edge.running is not None
        edge.running.require_alive()
        try:
            edge.publish(batch, key=f"b-{first}")
        except (OSError, ValueError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code != 503:  # routes that were damaged come back
                raise
            return False
        return True

    wait_until("it takes messages", accepted, seconds=120, describe=lambda: (edge.folder / "edge.log").read_text())
    answered.update(pads)


def _serves(edge: EdgeProgram) -> bool:
    assert edge.running is not None
    edge.running.require_alive()
    try:
        return edge.get("/readyz") == b"ok"
    except (OSError, ValueError):
        return False


def _drained(edge: EdgeProgram) -> bool:
    assert edge.running is not None
    edge.running.require_alive()
    try:
        return edge.drained() and bool(edge.status()["routes"])
    except (OSError, ValueError):
        return False
