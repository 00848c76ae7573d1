"""The hub's core in memory, with a listed cluster, edges that respond, and an in-memory API server for its status.

core = Core("edge-1")
core.rule(CONFIG_MAPS); core.put("a")
edge = core.connect("edge-1")
edge.ack(*edge.sent())
await core.flush()
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.support.hubs.live import CONFIG_MAP, POD, ROUTES, SECRET, live

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import LiveObject, ServedKind
from fairlead_hub.cluster.listed import EDGE_NODES, INPUTS
from fairlead_hub.events.kube_events import KubeEvent
from fairlead_hub.hub import Hub
from fairlead_hub.io.cluster.status_writer import StatusWriter
from fairlead_hub.ready import Ready, SessionOutput
from fairlead_hub.session_ref import Frame, SessionRef
from fairlead_hub.settings import DeliverySettings, HubSettings
from fairlead_hub.status import status_cache
from fairlead_hub.status.memory_status_client import MemoryStatusClient
from fairlead_hub.status.object_sync_status import COLLECTIONS
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.event import Event
from fairlead_wire.link.session import Timer
from fairlead_wire.objects import digest

CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
KINDS = (CONFIG_MAP, SECRET, POD, ROUTES)
NOON = 1_800_000_000.0
"""What the monotonic clock's zero is called on the wall: 2027-01-15T08:00:00Z."""
QUICK = DeliverySettings(backoff_retries=1, minimum_delay=1, maximum_delay=1, ack_timeout=5)
FENCE = 3


class Edge:
    """One open session that responds as a node would; it holds what it acknowledged."""

    def __init__(self, core: Core, ref: SessionRef, held: dict[str, LiveObject]) -> None:
        session = core.hub.open_sessions.find(ref)
        assert session is not None
        self.core, self.ref, self.session, self.held = core, ref, session, held

    def sent(self) -> list[Any]:
        """Objects sent since the last call; comparisons are answered meanwhile, and keepalives are skipped."""
        found: list[Any] = []
        while frames := self._frames():
            for header, _ in frames:
                match header:
                    case message.Compare():
                        pairs = [(one.uid, one.digest) for one in self.held.values()]
                        sums = digest.Buckets.of(pairs, header.bits).encode()
                        self.say(message.BucketSums(parent_id=header.id, bits=header.bits), sums)
                    case message.ListBuckets():
                        rows = ",".join(
                            f'["{o.path}","{o.uid}","{o.digest}","{o.version}"]' for o in self.held.values()
                        )
                        self.say(message.Entries(parent_id=header.id, last=True), f"[{rows}]".encode())
                    case message.Welcome() | message.Keepalive():
                        pass
                    case _:
                        found.append(header)
        return found

    def _frames(self) -> list[Frame]:
        return self.core.frames(self.ref)

    def receive(self, header: message.FromEdge, content: bytes = b"") -> Any:
        """Returns what a service outside the core must answer."""
        return self.core.hub.sessions.receive(self.ref, header, content, self.core.now)

    def say(self, header: message.FromEdge, content: bytes = b"") -> None:
        self.receive(header, content)
        self.core.settle()

    def ack(self, *headers: Any) -> None:
        for header in headers:
            self.say(self.acknowledgement(header))

    def acknowledgement(self, header: Any) -> message.Ack:
        return message.Ack(parent_id=header.id)

    def nack(self, header: Any, code: str = "store_full", reason: str = "no room", *, permanent: bool = True) -> None:
        self.say(message.Nack(parent_id=header.id, code=code, reason=reason, permanent=permanent))

    def leave(self) -> None:
        self.core.hub.sessions.closed(self.ref, self.core.now)
        self.core.settle()


class Core:
    """A hub whose watches are all listed (unless ``listed=False``); the test moves ``now``."""

    def __init__(self, *nodes: str, listed: bool = True, delivery: DeliverySettings = QUICK, **settings: Any) -> None:
        self.hub = Hub(
            HubSettings(security="insecure", delivery=delivery, **settings), name="hub-1", fence=FENCE,
            clock=WallClock(lambda: NOON),
        )  # fmt: skip
        self.api = MemoryStatusClient()
        self.now = 0.0
        self.fenced: list[int] = []
        self._writer = StatusWriter(
            self.hub.documents, self.api, clock=lambda: self.now, in_flight=4, fence=lambda: self.hub.fence,
            may_write=lambda: True, on_fenced=self.fenced.append,
        )  # fmt: skip
        self._cloud_events: list[Event] = []
        self._outputs: list[SessionOutput] = []
        self.may_be_silent = False
        """Edges that say nothing are given up, however far a test moves the time."""
        self.has_shell = False
        """A real ``ReadyLoop`` takes what is ready."""
        for kind in KINDS:
            self.hub.cluster.know_kind(kind)
        for name in nodes:
            self.node(name)
        if listed:
            self.list_all()

    def list_all(self) -> None:
        """List everything that the hub waits for at its start."""
        for name in INPUTS:
            self.hub.cluster.input_synced(name)
        for kind in KINDS:
            self.hub.cluster.kind_synced(kind.group_kind)
        for collection in (*COLLECTIONS, EDGE_NODES):
            self.hub.documents.listed(collection, self.now)
        self.settle()

    def settle(self) -> bool:
        """Take what is ready, except documents and Kubernetes Events.

        True: there were frames, or there is more now.
        """
        if self.has_shell:
            return False
        ready = self.take_ready(documents=False, kube_events=False)
        return bool(ready.sessions) or (ready.next_turn is not None and ready.next_turn <= self.now)

    def frames(self, ref: SessionRef) -> list[Frame]:
        """All frames that are ready for this session, as a connection with free buffers would take them."""
        while self.settle():
            pass
        frames = [frame for output in self._outputs if output.session is ref for frame in output.frames]
        self._outputs = [output for output in self._outputs if output.session is not ref]
        return frames

    def take_cloud_events(self) -> list[Event]:
        self.settle()
        events, self._cloud_events = self._cloud_events, []
        return events

    def take_kube_events(self) -> list[KubeEvent]:
        return self.take_ready(documents=False).kube_events

    def take_ready(self, *, documents: bool = True, kube_events: bool = True) -> Ready:
        for session in self.hub.open_sessions.by_node.values() if not self.may_be_silent else ():
            if session.link.tick(self.now) is Timer.PEER_SILENT:
                session.link.last_received = self.now  # it said something meanwhile
        ready = self.hub.take_ready(self.now, documents=documents, kube_events=kube_events)
        self._cloud_events += ready.cloud_events
        self._outputs += ready.sessions
        return ready

    def node(self, name: str, *, uid: str = "", **labels: str) -> None:
        self.hub.cluster.set_node(name, uid or f"uid-{name}", labels, self.now)

    def rule(self, *resources: dict[str, Any], name: str = "r", **spec: Any) -> Core:
        self.hub.cluster.set_rule(
            sync_rule.rule({"metadata": {"name": name}, "spec": {"resources": list(resources), **spec}}), self.now
        )
        self.settle()
        return self

    def annotate(self, node: str, **annotations: str) -> None:
        """The watch reports its EdgeNode with these annotations and the status that was written last."""
        there = self.api.documents.get((EDGE_NODES, "", node))
        if there is None:
            there = status_cache.Observed(version="", generation=1, status={}, head={})
        annotated = {f"fairlead.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
        self.hub.documents.edge_node_observed(node, there, annotated, self.now)

    def put(self, name: str, kind: ServedKind = CONFIG_MAP, **fields: Any) -> LiveObject:
        one = live(kind, name, **fields)
        self.hub.cluster.put_object(one, self.now)
        return one

    def remove(self, one: LiveObject) -> None:
        self.hub.cluster.remove_object(one.key, one.uid, self.now)

    def hello(self, node: str, *held: LiveObject, **more: Any) -> message.Hello:
        sums = digest.Buckets.of([(one.uid, one.digest) for one in held], 0)
        fields = {"node": node, "agent": "1.0", "store_epoch": 7, "fence": 0, **more}
        return message.Hello(bits=0, held=len(held), root=sums.root, **fields)

    def connect(self, node: str = "edge-1", *held: LiveObject, **more: Any) -> Edge:
        """Connect an edge that holds these objects; it must be accepted."""
        session = self.hub.sessions.open(node, self.hello(node, *held, **more), self.now)
        assert isinstance(session, SessionRef), session
        return Edge(self, session, {one.key: one for one in held})

    def opened(self, node: str = "edge-1", *held: LiveObject, **more: Any) -> Edge:
        """Connect and compare, and send everything; nothing is acknowledged yet."""
        edge = self.connect(node, *held, **more)
        edge.sent()
        return edge

    def served(self, node: str = "edge-1", *held: LiveObject, **more: Any) -> Edge:
        """The same, and acknowledge everything."""
        edge = self.connect(node, *held, **more)
        edge.ack(*edge.sent())
        return edge

    def refused(self, node: str, **more: Any) -> message.Refuse:
        """Connect an edge that must be refused."""
        outcome = self.hub.sessions.open(node, self.hello(node, **more), self.now)
        assert isinstance(outcome, message.Refuse), outcome
        return outcome

    async def report(self) -> None:
        """Write everything now, as a stopping hub does."""
        self.hub.report(self.now, last=True)
        await self.flush()

    async def flush(self) -> None:
        """Write the status cache to the in-memory API server."""
        await self._writer.write(self.take_ready(kube_events=False).documents)

    def status(self, one: LiveObject, node: str = "edge-1") -> dict[str, Any] | None:
        """The status of the object's record in the in-memory API server; None if there is none."""
        collection = COLLECTIONS[0] if one.resource.namespace else COLLECTIONS[1]
        found = self.api.documents.get((collection, one.resource.namespace, f"{node}.{one.uid}"))
        return None if found is None else found.status

    def names(self, collection: str = COLLECTIONS[0]) -> list[status_cache.Name]:
        return sorted(name for name in self.api.documents if name[0] == collection)


def short(headers: Iterable[Any]) -> list[tuple[str, str]]:
    """(kind of frame, name of its object)."""
    return [(type(header).__name__, header.resource.rsplit("/", 1)[1]) for header in headers]


def unreadable(core: Core, name: str, generation: int = 1, status: dict[str, Any] | None = None) -> None:
    """A SyncRule without entries, as the watch reports it."""
    body = {"metadata": {"name": name, "generation": generation}, "spec": {"resources": []}, "status": status}
    core.hub.cluster.break_rule(sync_rule.unreadable(body, "spec.resources: at least one entry is needed"), core.now)


def routes(core: Core, topic: str, name: str = "main", **more: Any) -> Any:
    """An EdgeRoutes object with one route to this topic."""
    spec = {"routes": {"r": {"route": "FROM /* INTO $upstream", "topic": topic}}, **more}
    return core.put(name, ROUTES, namespace="", version=topic, spec=spec)
