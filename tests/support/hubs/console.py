"""The console of an in-memory hub, and nodes in every possible state.

async with serving(core) as served: … served.url
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
from aiohttp import web
from tests.support.hubs.hub_core import CONFIG_MAPS, QUICK, Core, Edge
from tests.support.spans import KeptSpans

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.console import snapshot
from fairlead_hub.console.lines import ReaderLag, TopicLine, TopicsSeen
from fairlead_hub.io import http
from fairlead_hub.io.console.console import Console
from fairlead_hub.io.console.span_ring import SpanRing
from fairlead_hub.settings import Reconcile
from fairlead_hub.status import status_cache
from fairlead_wire import message
from fairlead_wire.io.spans import Spans, Value
from fairlead_wire.traces import span_names
from fairlead_wire.traces.trace import Sampler

TOPICS = TopicsSeen(
    True,
    (
        TopicLine("default/sales", 48_212_904, 312.4, (ReaderLag("sales-table", 312, 1.9),)),
        TopicLine("default/telemetry", 902_114_388, 4188.0, (ReaderLag("telemetry-table", 9120, 2.4),)),
        TopicLine("system/events", 51_202, 0.4, ()),
    ),
)
PLACES = ("berlin", "bremen", "dresden", "essen", "hamburg", "koeln", "leipzig", "muenchen", "rostock", "ulm")


def surveyed(core: Core, health: WatchHealth | None = None) -> tuple[snapshot.ConsoleSnapshot, int]:
    """A complete survey, and its number of slices."""
    survey, slices = snapshot.survey(core.hub.view, health or WatchHealth({"nodes"}), core.now), 0
    while True:
        try:
            next(survey)
            slices += 1
        except StopIteration as end:
            return end.value, slices


class Served:
    """A console on loopback; the test moves ``now`` of the core."""

    def __init__(self, core: Core, console: Console, health: http.HubHealth, port: int) -> None:
        self.core, self.console, self.health, self.port = core, console, health, port
        self.url = f"http://127.0.0.1:{port}"

    def happened(self) -> None:
        """Pass on what the core reports, as the hub's loop does."""
        self.console.publish(self.core.take_cloud_events())


@contextlib.asynccontextmanager
async def serving(
    core: Core,
    *,
    clock: Callable[[], float] | None = None,
    ready: bool = True,
    spans: SpanRing | None = None,
) -> AsyncIterator[Served]:
    """Without ``clock`` surveys are paced by the core's own time."""
    freshness, app = WatchHealth({"nodes"}), web.Application()
    health = http.HubHealth(lambda: ([], False))
    console = Console(core.hub.view, freshness, health, clock or (lambda: core.now), spans)
    http.NodesApi(core.hub.view, freshness, lambda: core.now).add_to(app)
    console.add_to(app)
    if ready:
        health.serves()
    runner, port = await http.listen(app, "127.0.0.1", 0)
    try:
        yield Served(core, console, health, port)
    finally:
        await runner.cleanup()


def traced(nodes: Sequence[str]) -> SpanRing:
    """The spans of one change on its way to these nodes; the first node's window was full."""
    ring = SpanRing()
    spans = Spans(
        ring.around(KeptSpans()), Sampler(ratio=1.0, ceiling_per_second=1000.0, uniform=lambda: 0.5), lambda: 0.0
    )
    named: dict[str, Value] = {span_names.RESOURCE: "api/v1/namespaces/shop/configmaps/prices-1"}
    observed = spans.begin(span_names.OBSERVE, None, kind="internal", attributes=named)
    assert observed is not None
    observed.end()
    for name in nodes:
        hop = spans.hop(
            span_names.DELIVER, [observed.trace], kind="client", attributes={**named, span_names.NODE: name}
        )
        assert hop is not None
        hop.end("store_full" if name == nodes[0] else "")
    return ring


def fleet(count: int) -> Core:
    """Mostly in sync; some catch up, some are away, and a few wait for a person."""
    slow = QUICK.model_copy(update={"ack_timeout": 3600.0})
    core = Core(delivery=slow, reconcile=Reconcile(parked_retry_seconds=3600.0))
    core.rule(CONFIG_MAPS)
    for at in range(4):
        core.put(f"prices-{at}", namespace="shop")
    names = [f"{PLACES[at % len(PLACES)]}-store-{at // len(PLACES) + 1:04}" for at in range(count)]
    for name in names:
        core.node(name)
    edges: list[Edge] = []
    for at, name in enumerate(names):
        if at % 23 == 4:
            _was_here(core, name, days=at % 9)
        elif at % 101 != 7:
            edge = core.connect(name, agent="fairlead-edge/0.2.0" if at % 7 else "fairlead-edge/0.1.4")
            _answers(edge, at)
            edges.append(edge)
    for at, edge in enumerate(edges):
        if at % 31 == 3:
            core.annotate(edge.session.node, paused="maintenance until Friday")
        _queues(edge, at)
    core.now = 600.0
    core.settle()
    return core


def _was_here(core: Core, name: str, days: int) -> None:
    status = {"connected": False, "lastContactTime": core.hub.clock.text(-86_400.0 * days - 7200), "objectsHeld": 4,
              "agentVersion": "fairlead-edge/0.1.4", "storeEpoch": "7"}  # fmt: skip
    observed = status_cache.Observed(version="1", generation=1, status=status, head={})
    core.hub.documents.observed((EDGE_NODES, "", name), name, observed)
    core.hub.documents.edge_node_observed(name, observed, {}, core.now)


def _answers(edge: Edge, at: int) -> None:
    sent = edge.sent()
    if at % 47 == 9 and sent:
        full = at % 2 == 0
        reason = "the store has 12 MB left, and the object needs 31 MB" if full else "over the limit of 1 MiB"
        edge.nack(sent[0], code="store_full" if full else "too_large", reason=reason)
        sent = sent[1:]
    elif at % 17 == 5:
        sent = sent[:-1]
    edge.ack(*sent)


def _queues(edge: Edge, at: int) -> None:
    if at % 3:
        return
    queues = []
    for priority, length in ((0, at % 4), (5, 20 + at % 90), (9, 300 + at % 700)):
        stalled = at % 60 == 0 and priority == 9
        queues.append(
            message.QueueStatus(
                endpoint="$upstream",
                priority=priority,
                length=length,
                bytes=length * 420,
                oldest_age_seconds=3.0 + at % 40,
                stalled_seconds=45.0 if stalled else 0.0,
                stalled_by="topic default/video: quota" if stalled else "",
            )
        )
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=4, queues=queues)))


async def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Poll, so that the test also passes on a busy machine."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
