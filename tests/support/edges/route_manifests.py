"""Thousands of EdgeRoutes specs, valid ones and ones with one or two mistakes; a seed always gives the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

UP = "FROM /messages/* INTO $upstream"
TEXTS = (UP, 'FROM /messages/modules/m/* INTO BrokeredEndpoint("/modules/a/inputs/b")', "FRM", "x" * 70_000)
BLANK = ("", " ", "\t\n", "\u00a0", "\u200b")
ODD: tuple[Any, ...] = (None, True, False, 0, -1, 1.5, 1.0, 1e3, "1", "", [], [UP], {}, {"a": 1}, 2**31, 2**32, 2**63)
NAMES = ("r", "alarms", "a-b_c", "a.b", "a b", "$a", "a#b", "", "ü", "R", "x" * 300)
VERSIONS = ("1.1", "1.2", "1.3", "1.1.0", "1.3.0.1")
BAD_VERSIONS = (
    "1.0",
    "1.0.7",
    "1",
    "1.4",
    "2.0",
    "0.9",
    "v1.1",
    "1.1 ",
    "01.1",
    "1.1.",
    "1.1\n",
    "1.1.1.1.1",
    "1.1-beta",
)
PRIORITIES = (0, 1, 5, 9)
BAD_PRIORITIES = (-1, 10, 2_000_000_000, *ODD)
TTLS = (0, 1, 7200, 2**32 - 1)
TOPICS = ("plant/alarms", "default/telemetry", "a-1/b_2", "systems/x")
BAD_TOPICS = ("alarms", "a/b/c", "/a", "a/", "a b/c", "system/events", "a/b\n", "ä/b", *ODD)


def specs(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Seven in ten are valid; the others have a mistake, mostly one."""
    random = Random(seed)
    for _ in range(count):
        yield _spec(random, 0.0 if random.random() < 0.7 else 0.12)


def _spec(random: Random, wrong: float) -> dict[str, Any]:
    def pick(good: Any, bad: Any) -> Any:
        return random.choice(bad if random.random() < wrong else good)

    version = pick(VERSIONS, (*BAD_VERSIONS, *ODD))
    only_texts = isinstance(version, str) and version.startswith("1.0") and random.random() >= wrong
    spec: dict[str, Any] = {
        "schemaVersion": version,
        "routes": pick(
            [{random.choice(NAMES): _route(random, wrong, only_texts) for _ in range(random.randrange(4))}], ODD
        ),
        "storeAndForwardConfiguration": pick(
            [{}, {"timeToLiveSecs": pick((-1, *TTLS), (-2, 2**32, *ODD))}, {"timeToLiveSecs": 60, "odd": 1}], ODD
        ),
    }
    for key in list(spec):
        if random.random() < wrong / 2:
            del spec[key]
    if random.random() < wrong:
        spec[random.choice(("route", "schemaversion", "ttl"))] = 1
    return spec


def _route(random: Random, wrong: float, only_text: bool) -> Any:
    def pick(good: Any, bad: Any) -> Any:
        return random.choice(bad if random.random() < wrong else good)

    text = pick(TEXTS, (*BLANK, *ODD))
    if only_text or random.random() < 0.4:
        return text
    route = {"route": text}
    for key, good, bad in (
        ("priority", PRIORITIES, BAD_PRIORITIES),
        ("timeToLiveSecs", TTLS, (-1, 2**32, *ODD)),
        ("topic", TOPICS, BAD_TOPICS),
        ("odd", ODD, ODD),
    ):
        if random.random() < 0.3:
            route[key] = pick(good, bad)
    if random.random() < wrong / 2:
        del route["route"]
    return route
