"""A seeded world for records: the whole core of the hub, the API server's twin behind its book, and edges with disks.

What goes wrong: writes that are refused, conflict or are lost with the hub; records deleted and edited by hand; hubs
killed between any two steps; acks lost; disks wiped and restored; the API server taken back in time.

Laws:
1. No record ever names content that the node never had on disk: it may lag, never lead.
2. When it has calmed, every node holds what it should, and its records say exactly that: one for each, none besides.
"""

from __future__ import annotations

import asyncio
import copy
from random import Random
from typing import Any

import msgspec
from tests.sim.laws import LawBroken
from tests.support.live import CONFIG_MAP, ROUTES, live

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import Held, LiveObject
from fairlead_hub.cluster.placement import EDGE_NODES, INPUTS
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.hub import Hub
from fairlead_hub.io.status_writer import StatusWriter
from fairlead_hub.settings import Settings
from fairlead_hub.status import object_sync, status_cache
from fairlead_hub.status.object_sync_status import COLLECTIONS
from fairlead_hub.status.status_cache import Answer, Document, MemoryStatusClient, Observed, Removal
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import digest, message, resource

NODES = ("edge-0", "edge-1")
OBJECTS = 5
STEPS = 200
CALM_STEPS = 150
RULE = {"metadata": {"name": "all"}, "spec": {"resources": [{"apiVersion": "v1", "kind": "ConfigMap"}]}}


class FlakyStatusClient:
    """The twin, sometimes away; what it wrote may never be answered, because the hub died meanwhile."""

    def __init__(self, store: MemoryStatusClient, random: Random) -> None:
        self.store, self._random = store, random
        self.calm = False
        self.unanswered: list[status_cache.Name] = []
        """Written, and the answer was lost: the watch tells."""

    async def put(self, document: Document, observed: Observed | None, fence: int) -> tuple[Answer, Observed | None]:
        if not self.calm and self._random.random() < 0.15:
            if self._random.random() < 0.5:
                await self.store.put(document, observed, fence)
                self.unanswered.append(document.name)
            return Answer.RETRY, None
        return await self.store.put(document, observed, fence)

    async def remove(self, removal: Removal, observed: Observed | None, fence: int) -> Answer:
        if not self.calm and self._random.random() < 0.15:
            return Answer.RETRY
        return await self.store.remove(removal, observed, fence)

    def refusal(self, name: status_cache.Name) -> str:
        return self.store.refusal(name)


class Edge:
    """A disk and a connection; frames wait in ``inbox`` until the world lets them be read."""

    def __init__(self) -> None:
        self.disk: dict[str, Held] = {}
        self.backup: dict[str, Held] = {}
        self.ever: set[tuple[str, str]] = set()
        self.inbox: list[Any] = []
        self.session: NodeSession | None = None


class RecordWorld:
    """``run`` plays it.  ``records_lead`` plants the bug the first law is there for."""

    settings = Settings(security="insecure")

    def __init__(self, seed: int, *, records_lead: bool = False) -> None:
        self.random = Random(seed)
        self.records_lead = records_lead
        self.now = 0.0
        self.version = 0
        self.fence = 0
        self.calm = False
        self.live: dict[str, LiveObject] = {}
        self.judged: dict[status_cache.Name, Observed] = {}
        self.store = MemoryStatusClient()
        self.edges = {name: Edge() for name in NODES}
        self.backup: tuple[dict[str, LiveObject], dict[status_cache.Name, Observed]] = ({}, {})
        self.runner = asyncio.Runner()
        self.start_hub()

    # ---- the hub ---------------------------------------------------------------------------------

    def start_hub(self) -> None:
        """A new process: nothing is remembered, everything is listed again."""
        self.fence += 1
        self.flaky = FlakyStatusClient(self.store, self.random)
        self.flaky.calm = self.calm
        self.hub = Hub(self.settings, name="hub", fence=self.fence, clock=WallClock(lambda: 0.0))
        self.writer = StatusWriter(
            self.hub, self.flaky, clock=lambda: self.now, in_flight=1, fence=lambda: self.fence,
            may_write=lambda: True, on_fenced=lambda fence: None,
        )  # fmt: skip
        for edge in self.edges.values():
            edge.session, edge.inbox = None, []
        for kind in (CONFIG_MAP, ROUTES):
            self.hub.know_kind(kind)
        for name in NODES:
            self.hub.set_node(name, f"uid-{name}", {}, self.now)
        self.hub.set_rule(sync_rule.rule(RULE), self.now)
        for name in INPUTS:
            if name != EDGE_NODES:
                self.hub.input_synced(name)
        for one in self.live.values():
            self.hub.put_object(one, self.now)
        self.hub.kind_synced(CONFIG_MAP.group_kind)
        self.observe_all()

    def observe_all(self) -> None:
        for name in [name for name in self.hub.status_cache.observed if name not in self.store.documents]:
            self.vanished(name)
        for name in list(self.store.documents):
            self.observe(name)
        for collection in (*COLLECTIONS, EDGE_NODES):
            self.hub.documents_listed(collection, self.now)
        self.hub.take_ready(self.now, documents=False)

    def observe(self, name: status_cache.Name) -> None:
        """The watch says how a document of ours stands."""
        there = self.store.documents.get(name)
        if there is None:
            self.vanished(name)
        elif name[0] == EDGE_NODES:
            self.hub.edge_node_observed(name[2], there, self.annotations(name[2]), self.now)
        else:
            self.hub.document_observed(name, self.node_of(name), there, self.now)

    def vanished(self, name: status_cache.Name) -> None:
        """The watch says that a document of ours is gone."""
        if name[0] == EDGE_NODES:
            self.hub.edge_node_vanished(name[2], self.now)
        else:
            self.hub.document_vanished(name, self.node_of(name), self.now)

    def annotations(self, node: str) -> dict[str, str]:
        """Of its EdgeNode."""
        return {}

    def node_of(self, name: status_cache.Name) -> str:
        return name[2].rpartition(".")[0] if name[0] != EDGE_NODES else name[2]

    def flush(self) -> None:
        self.runner.run(self.writer.write(self.hub.take_ready(self.now).documents))
        written, self.flaky.unanswered = self.flaky.unanswered, []
        for name in written:
            self.observe(name)
        for name, there in self.store.documents.items():
            if name[0] not in COLLECTIONS or self.judged.get(name) is there:
                continue
            self.judged[name] = there
            body = {"metadata": {"namespace": name[1]}, "spec": there.head.get("spec"), "status": there.status}
            record = object_sync.parse(body)
            if record is None or not record.digest:
                continue
            if (record.uid, record.digest) not in self.edges[record.node].ever:
                raise LawBroken(f"{name}: names content that {record.node} never had")

    # ---- the cluster -----------------------------------------------------------------------------

    def change(self) -> None:
        name = f"c{self.random.randrange(OBJECTS)}"
        self.version += 1
        there = self.live.get(name)
        if there is not None and self.random.random() < 0.3:
            del self.live[name]
            self.hub.remove_object(there.key, there.uid, self.now)
            return
        uid = there.uid if there is not None else f"uid-{name}-{self.version}"
        value = str(self.random.randrange(3))
        one = live(CONFIG_MAP, name, uid=uid, version=str(self.version), data={"v": value})
        self.live[name] = one
        self.hub.put_object(one, self.now)

    def restore_api_server(self) -> None:
        objects, documents = self.backup
        for collection in (*COLLECTIONS, EDGE_NODES):
            self.hub.status_cache.restored(collection)
        self.live = dict(objects)
        self.store.documents = dict(documents)
        fresh = {one.key: one.uid for one in self.live.values()}
        for one in self.live.values():
            self.hub.put_object(copy.copy(one), self.now)
        self.hub.relist(CONFIG_MAP.group_kind, fresh, self.now)
        self.observe_all()

    def meddle(self) -> None:
        """Somebody deletes a record, or writes nonsense into its status."""
        names = sorted(name for name in self.store.documents if name[0] in COLLECTIONS)
        if not names:
            return
        name = self.random.choice(names)
        there = self.store.documents[name]
        if self.random.random() < 0.5:
            del self.store.documents[name]
            self.vanished(name)
        else:
            self.store._version += 1
            status = {**there.status, "objectResourceVersion": "", "objectDigest": "", "state": "Synced"}
            changed = Observed(version=str(self.store._version), generation=1, status=status, head=there.head)
            self.store.documents[name] = changed
            self.hub.document_observed(name, self.node_of(name), changed, self.now)

    # ---- the edges -------------------------------------------------------------------------------

    def connect(self, name: str) -> None:
        edge = self.edges[name]
        if edge.session is not None:
            self.hub.closed(edge.session, self.now)
        edge.inbox.clear()
        pairs = [(held.uid, held.digest) for held in edge.disk.values()]
        hello = message.Hello(
            node=name,
            agent="sim",
            store_epoch=1,
            fence=0,
            bits=0,
            held=len(pairs),
            root=digest.Buckets.of(pairs, 0).root,
        )
        opened = self.hub.open(name, hello, self.now)
        assert isinstance(opened, NodeSession), opened
        edge.session = opened

    def pump(self, name: str) -> None:
        """The hub writes, the edge reads some of it."""
        edge = self.edges[name]
        if edge.session is None:
            return
        edge.inbox.extend(self.frames(name, edge.session))
        reads = len(edge.inbox) if self.calm else self.random.randrange(len(edge.inbox) + 1)
        for header, _ in edge.inbox[:reads]:
            self.read(edge, header)
        del edge.inbox[:reads]

    def frames(self, name: str, session: NodeSession) -> list[tuple[Any, bytes]]:
        """What the hub sends that node now."""
        return self.hub.frames(session, self.now, 8)

    def read(self, edge: Edge, header: Any) -> None:
        match header:
            case message.Compare():
                sums = digest.Buckets.of(((h.uid, h.digest) for h in edge.disk.values()), header.bits)
                self.say(edge, message.Buckets(parent_id=header.id, bits=header.bits), sums.encode())
            case message.ListBuckets():
                entries = [message.Entry(h.path, h.uid, h.digest, h.version) for h in edge.disk.values()]
                self.say(edge, message.Entries(parent_id=header.id, last=True), msgspec.json.encode(entries))
            case message.Update():
                if self.records_lead:
                    self.say(edge, message.Ack(parent_id=header.id))
                    return
                if not self.calm and self.random.random() < 0.2:
                    permanent = self.random.random() < 0.5
                    self.say(edge, message.Nack(parent_id=header.id, code="no", reason="", permanent=permanent))
                    return
                held = Held(header.resource, header.uid, header.digest, header.resource_version)
                edge.disk[resource.parse(header.resource).key] = held
                edge.ever.add((header.uid, header.digest))
                self.answer(edge, header.id)
            case message.Delete():
                key = resource.parse(header.resource).key
                if key in edge.disk and edge.disk[key].uid == header.uid:
                    del edge.disk[key]
                self.answer(edge, header.id)

    def answer(self, edge: Edge, id: int) -> None:
        if self.calm or self.random.random() > 0.2:
            self.say(edge, message.Ack(parent_id=id))

    def say(self, edge: Edge, header: Any, content: bytes = b"") -> None:
        if edge.session is not None:
            self.hub.receive(edge.session, header, content, self.now)

    # ---- time ------------------------------------------------------------------------------------

    def step(self) -> None:
        self.now += self.random.random() if not self.calm else 14.0
        name = self.random.choice(NODES)
        edge = self.edges[name]
        if not self.calm:
            match self.random.randrange(100):
                case n if n < 30:
                    self.change()
                case n if n < 34:
                    self.start_hub()
                case n if n < 40:
                    self.connect(name)
                case n if n < 42:
                    edge.disk = {} if self.random.random() < 0.5 else dict(edge.backup)
                    self.connect(name)
                case n if n < 44:
                    edge.backup = dict(edge.disk)
                case n if n < 50:
                    self.meddle()
                case n if n < 52:
                    self.backup = (dict(self.live), dict(self.store.documents))
                case 53:
                    self.restore_api_server()
                case n if n < 75:
                    self.flush()
                case _:
                    pass
        for each in NODES:
            edge = self.edges[each]
            if self.calm and edge.session is None:
                self.connect(each)
            self.pump(each)
            if edge.session is not None and not self.hub.tick(edge.session, self.now):
                self.hub.closed(edge.session, self.now)
                edge.session = None
            elif edge.session is not None and self.random.random() < 0.5:
                self.say(edge, message.Keepalive())
        self.hub.sweep(self.now)
        self.hub.report(self.now)

    def run(self) -> None:
        """Raises ``LawBroken``."""
        try:
            for _ in range(STEPS):
                self.step()
            self.calm = self.flaky.calm = True
            for number in range(CALM_STEPS):
                self.step()
                if number % 10 == 0:
                    self.flush()
            self.flush()
            self.judge()
        finally:
            self.runner.close()

    def judge(self) -> None:
        wanted = {one.key: (one.uid, one.digest) for one in self.live.values()}
        for name, edge in self.edges.items():
            held = {key: (one.uid, one.digest) for key, one in edge.disk.items()}
            if held != wanted:
                raise LawBroken(f"{name} holds {held}, wanted is {wanted}")
            said = {}
            for found, there in self.store.documents.items():
                if found[0] in COLLECTIONS and self.node_of(found) == name:
                    status, spec = there.status, there.head["spec"]
                    said[f"configmaps/{found[1]}/{spec['objectName']}", spec["objectUID"]] = (
                        status["state"], status["objectDigest"],
                        status["objectResourceVersion"] == status["wantedResourceVersion"],
                    )  # fmt: skip
            truth = {(key, uid): ("Synced", content, True) for key, (uid, content) in wanted.items()}
            if said != truth:
                raise LawBroken(f"records of {name} say {said}, the truth is {truth}")
