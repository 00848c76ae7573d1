"""How fast routes decide: twenty routes, each with a condition that looks into the body.

The baseline is the same twenty conditions written by hand in Python over a body parsed once, in the same run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.collect import Row
from benchmarks.goals import GOALS
from fairlead_edge.outbox.manifest import parse
from fairlead_edge.outbox.router import Router
from fairlead_edge.routes.message import RoutedMessage

ROOM = "upstream"
ROUTES = 20
MESSAGES = 2_000
ROUNDS = 7
GOAL_PER_SECOND = 100_000
SOURCE = "/messages/modules/sensor/outputs/readings"
SYSTEM_PROPERTIES = {"contentType": "application/json", "contentEncoding": "utf-8"}


def rows() -> Iterator[Row]:
    """`up.routes`: conditions decided in a second, everything included: message, JSON, matching, ranking."""
    bodies = [_body(number) for number in range(MESSAGES)]
    router = Router(parse(_manifest()), "node")
    best = min(_seconds(lambda: _route_all(router, bodies)) for _ in range(ROUNDS))
    by_hand = min(_seconds(lambda: _by_hand(bodies)) for _ in range(ROUNDS))
    value, baseline = MESSAGES * ROUTES / best, MESSAGES * ROUTES / by_hand
    yield Row(
        name="up.routes",
        value=value,
        unit="evaluations/s",
        goal=GOALS[ROOM]["up.routes"],
        met=value >= GOAL_PER_SECOND,
        baseline=baseline,
        ratio=value / baseline,
    )


def _manifest() -> dict[str, Any]:
    routes = {
        f"r{number}": f"FROM /messages/* WHERE $body.temperature > {number * 5} AND $body.machine.kind = 'k{number}' "
        f"INTO BrokeredEndpoint('/modules/m{number}/inputs/in')"
        for number in range(ROUTES)
    }
    return {"schemaVersion": "1.1", "routes": routes, "storeAndForwardConfiguration": {"timeToLiveSecs": 7200}}


def _body(number: int) -> bytes:
    reading = {"temperature": number % 100, "machine": {"kind": f"k{number % ROUTES}", "line": 4}, "note": "x" * 200}
    return json.dumps(reading).encode()


def _route_all(router: Router, bodies: list[bytes]) -> None:
    for body in bodies:
        router.route(RoutedMessage({"severity": "low"}, SYSTEM_PROPERTIES, body), SOURCE)


def _by_hand(bodies: list[bytes]) -> int:
    matched = 0
    for body in bodies:
        document = json.loads(body)
        for number in range(ROUTES):
            if document["temperature"] > number * 5 and document["machine"]["kind"] == f"k{number}":
                matched += 1
    return matched


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
