"""The hub's process in a simulated world: the real ``Hub``, and around it simulated watches, server, writer and clock.

    Cluster ─watches, lists─▶ Hub ─take_ready─▶ frames ▶ links, documents ▶ Cluster
    links   ─frames─────────▶

Lists come late and in any order, watches of documents lag, writes and their answers are delayed.  ``kill`` ends it
between any two steps; what was already sent to the API server still arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Protocol

from tests.sim.cluster import RULES, Cluster
from tests.sim.edge import run
from tests.sim.laws import LawBroken
from tests.sim.link import Link
from tests.support.hubs.live import CONFIG_MAP

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.hub import Hub
from fairlead_hub.ready import SILENT, SessionOutput
from fairlead_hub.session_ref import Frame, SessionRef
from fairlead_hub.settings import HubSettings
from fairlead_hub.status.object_sync_status import COLLECTIONS
from fairlead_hub.status.status_cache import Name, Observed, Removal, StatusWrite, WriteOutcome
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.errors import RemoteError
from fairlead_wire.link import codec

KIND = CONFIG_MAP.group_kind
OWN = (*COLLECTIONS, EDGE_NODES)
PACE_SECONDS = 0.004
TURNS_AT_ONE_TIME = 1000
HEARTBEAT_SECONDS = 1.0


class Around(Protocol):
    """The world: its time, its chances, and its laws."""

    random: Random
    now: float
    cluster: Cluster
    calm: bool

    def schedule(self, due: float, action: Callable[[], None]) -> None: ...

    def happens(self, chance: float) -> bool: ...

    def is_allowed(self, node: str, keys: set[str]) -> None: ...

    def is_sent(self, shell: HubShell, session: NodeSession, frames: list[Frame], was_stopped: bool) -> None: ...

    def is_heard(self, session: NodeSession, header: message.FromEdge) -> None: ...

    def edge_nodes_listed(self, shell: HubShell) -> None: ...

    def node_forgotten(self, node: str) -> None: ...

    def annotations_seen(self, shell: HubShell, node: str, annotations: dict[str, str]) -> None: ...

    def objects_seen(self) -> None: ...

    def deliver(self, link: Link, frame: bytes) -> None: ...

    def crowded_seconds(self) -> float: ...


class HubShell:
    """One life of the hub's process."""

    def __init__(self, world: Around, settings: HubSettings, fence: int) -> None:
        self._world, self._cluster, self._fence = world, world.cluster, fence
        self.hub = Hub(settings, name="sim", fence=fence, clock=WallClock(lambda: 0.0))
        self.alive = True
        self.links: dict[SessionRef, Link] = {}
        self._frames = self.hub.sessions._frames
        setattr(self.hub.sessions, "_frames", self._judged_frames)  # noqa: B010 - the world looks on as they are made
        self._due = float("inf")
        """When ``_perform`` is called next."""
        self._asks = False
        self._writing = 0
        self._followed: dict[str, int] = {}
        """Collections that were listed → the number of the list."""
        self._ever_listed: set[str] = set()
        self._lists = 0
        self._lags = dict.fromkeys(OWN, 0.0)
        self._kind_listed = False
        self._kind_wanted = False
        self._turns, self._turns_at = 0, 0.0
        world.cluster.watcher = self
        self.hub.subscribe(self._soon)
        self.hub.cluster.know_kind(CONFIG_MAP)
        self.hub.started(world.now)
        self.hub.cluster.input_synced("edgeroutes")
        for listing in (self._list_nodes, self._list_rules, *(self._lister(collection) for collection in OWN)):
            self._after(self._patience(), listing)
        self._after(HEARTBEAT_SECONDS, self._heartbeat)
        self._after(self._world.random.uniform(0.1, 1), self._ask)

    def kill(self) -> None:
        """The process ends, and its connections break."""
        self.alive = False
        if self._cluster.watcher is self:
            self._cluster.watcher = None
        for link in self.links.values():
            link.break_off()

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._world.schedule(self._world.now + seconds, lambda: action() if self.alive else None)

    def _patience(self) -> float:
        """How long a list takes: hardly any time, or a while."""
        random = self._world.random
        return random.uniform(0, 0.05) if self._world.calm or random.random() < 0.6 else random.uniform(0.5, 5)

    # ---- what is ready ---------------------------------------------------------------------------

    def _soon(self) -> None:
        self._at(self._world.now + PACE_SECONDS)

    def _at(self, due: float) -> None:
        if due < self._due:
            self._due = due
            self._world.schedule(due, partial(self._perform, due))

    def _perform(self, due: float) -> None:
        if not self.alive or due != self._due:
            return
        self._due, now = float("inf"), self._world.now
        self._count_turns(now)
        documents, self._asks = self._asks, False
        ready = self.hub.take_ready(now, documents=documents)
        self._judge_times(now)
        # The order within one Ready does not matter, but a replay needs the same one.
        for output in sorted(ready.sessions, key=lambda output: output.session.number):
            self._send(output)
        if ready.next_turn is not None:
            self._at(now if ready.next_turn <= now else max(ready.next_turn, now + PACE_SECONDS))
        if documents:
            self._write(sorted(ready.documents, key=lambda write: write.wanted.name))

    def _count_turns(self, now: float) -> None:
        """Law 6: a hub that asks for turns without end, while no time passes, would keep a core busy."""
        self._turns = self._turns + 1 if now == self._turns_at else 1
        self._turns_at = now
        if self._turns > TURNS_AT_ONE_TIME:
            raise LawBroken(f"law 6 at {now:.2f}: the hub took {self._turns} turns, and asks for another at once")

    def _judge_times(self, now: float) -> None:
        """Law 6: after its turn nothing of a session is due, unless something can be sent."""
        for ref in self.links:
            session = self.hub.open_sessions.find(ref)
            if session is not None and not session.is_over and session.next_tick() <= now and not session.has_frames:
                raise LawBroken(f"law 6 at {now:.2f}: {ref.node} is due, and there is nothing to do")

    def _heartbeat(self) -> None:
        self.hub.heartbeat(self._world.now)
        self._after(HEARTBEAT_SECONDS, self._heartbeat)

    # ---- documents -------------------------------------------------------------------------------

    def _ask(self) -> None:
        """The writer has nothing left to write."""
        self._asks = True
        self._soon()

    def _write(self, writes: list[StatusWrite]) -> None:
        """A few at a time, as the writer does; each arrives, and is answered, after a delay of its own."""
        pause = self._world.random.uniform(0.2, 1.5)
        self._writing = len(writes)
        if not writes:
            self._after(pause, self._ask)
        for write in writes:
            arrives = self._world.now + self._world.random.uniform(0.001, 0.1)
            self._world.schedule(arrives, partial(self._arrived, write, self._cluster.restores))

    def _arrived(self, write: StatusWrite, life: int) -> None:
        """The write reaches the API server, even if this hub is dead by now; one sent before a restore is lost."""
        cluster, world = self._cluster, self._world
        answer, there = WriteOutcome.RETRY, None
        lost = cluster.away or cluster.restores != life
        if not lost or (cluster.restores == life and world.happens(0.2)):
            if isinstance(write.wanted, Removal):
                answer = run(cluster.remove(write.wanted, write.observed, self._fence))
            else:
                answer, there = run(cluster.put(write.wanted, write.observed, self._fence))
        if lost:
            answer, there = WriteOutcome.RETRY, None
        self._after(world.random.uniform(0.001, 0.2), lambda: self._answered(write, answer, there, life))

    def _answered(self, write: StatusWrite, answer: WriteOutcome, there: Observed | None, life: int) -> None:
        if self._cluster.restores != life:
            answer, there = WriteOutcome.RETRY, None  # the connection did not outlive that API server
        if answer is WriteOutcome.RETRY and self._world.happens(0.3):
            self.hub.documents.unwritten(write.wanted, self._world.now)
        else:
            self.hub.documents.answered(write.wanted, answer, there, self._world.now)
        self._writing -= 1
        if not self._writing:
            self._after(self._world.random.uniform(0.2, 1.5), self._ask)

    # ---- watches ---------------------------------------------------------------------------------

    def object_changed(self, before: LiveObject | None, after: LiveObject | None) -> None:
        if not self._kind_listed:
            return
        self._world.objects_seen()
        if before is not None and (after is None or after.uid != before.uid):
            self.hub.cluster.remove_object(before.key, before.uid, self._world.now)
        if after is not None:
            self.hub.cluster.put_object(after, self._world.now)

    def _list_kind(self) -> None:
        """Everything that exists, then everything that no longer does."""
        if not self._kind_wanted:
            return
        hub, now = self.hub, self._world.now
        self._kind_listed = True
        self._world.objects_seen()
        hub.cluster.kind_served(KIND, {"v1": ""})
        for live in self._cluster.objects.values():
            hub.cluster.put_object(live, now)
        hub.cluster.relist(KIND, {live.key: live.uid for live in self._cluster.objects.values()}, now)
        hub.cluster.kind_synced(KIND)

    def lose_kind(self) -> None:
        """The watch of ConfigMaps broke, or they cannot be listed; after a while they are listed again."""
        if self._kind_listed:
            self._kind_listed = False
            self.hub.cluster.kind_unsynced(KIND)
            if self._world.happens(0.5):
                self._after(0.1, self._freeze_kind)
            self._after(0.2 + self._patience(), self._list_kind)

    def _freeze_kind(self) -> None:
        if not self._kind_listed:
            self.hub.cluster.kind_frozen(KIND, "not allowed")

    def lose_documents(self) -> None:
        """A watch of the hub's own documents broke; after a while they are listed again."""
        collection = self._world.random.choice(OWN)
        if self._followed.pop(collection, None) is not None:
            self._after(self._patience(), self._lister(collection))

    @property
    def has_listed(self) -> bool:
        """Every watch knows a version, by which it notices that the API server is an older copy."""
        return self._ever_listed >= {"nodes", RULES, *OWN}

    def restored(self) -> None:
        """The API server was restored from a backup: every watch notices, and everything is listed again."""
        self.hub.documents.restored(RULES)
        for collection in OWN:
            self.hub.documents.restored(collection)
            if self._followed.pop(collection, None) is not None:
                self._after(self._patience(), self._lister(collection))
        if self._kind_listed:
            self._kind_listed = False
            self.hub.cluster.kind_unsynced(KIND)
        if "nodes" in self._followed:
            self._list_nodes()
        if RULES in self._followed:
            self._list_rules()
        if self._kind_wanted:
            self._after(self._patience(), self._list_kind)

    def _follow(self, collection: str) -> None:
        self._lists += 1
        self._followed[collection] = self._lists
        self._ever_listed.add(collection)

    def _list_nodes(self) -> None:
        hub = self.hub
        self._follow("nodes")
        for name in sorted(self._cluster.nodes):
            self.node_changed(name)
        for name in sorted(hub.node_status.node_uids.keys() - self._cluster.nodes.keys()):
            self._drop_node(name)
        hub.cluster.input_synced("nodes")
        hub.reconcile(self._world.now)

    def node_changed(self, name: str) -> None:
        if "nodes" not in self._followed:
            return
        if name in self._cluster.nodes:
            uid, labels = self._cluster.nodes[name]
            self.hub.cluster.set_node(name, uid, labels, self._world.now)
        else:
            self._drop_node(name)

    def _drop_node(self, name: str) -> None:
        self.hub.cluster.drop_node(name, self._world.now)
        self._world.node_forgotten(name)

    def _list_rules(self) -> None:
        self._follow(RULES)
        for name in sorted(self._cluster.rules):
            self.rule_changed(name)
        for name in sorted(self.hub.placement.rules.rule_names() - self._cluster.rules.keys()):
            self.rule_changed(name)
        self.hub.cluster.input_synced(RULES)

    def rule_changed(self, name: str) -> None:
        if RULES not in self._followed:
            return
        hub, now = self.hub, self._world.now
        there = self._cluster.documents.get((RULES, "", name))
        if there is None:
            hub.cluster.drop_rule(name)
        else:
            body = self._cluster.rule_body(name)
            hub.documents.rule_observed(RULES, name, there)
            try:
                rule = sync_rule.rule(body)
            except ValueError as error:
                hub.cluster.break_rule(sync_rule.unreadable(body, str(error)), now)
            else:
                if hub.placement.rules.readable.get(name) != rule or f"{RULES}/{name}" in hub.placement.rules.broken:
                    hub.cluster.set_rule(rule, now)
        self._follow_kind()

    def _follow_kind(self) -> None:
        """Watch ConfigMaps while a rule names them."""
        wanted = KIND in self.hub.placement.kinds()
        if wanted and not self._kind_wanted:
            self._after(self._patience(), self._list_kind)
        if self._kind_wanted and not wanted:
            self._kind_listed = False
            self.hub.cluster.kind_dropped(KIND)
        self._kind_wanted = wanted

    def document_changed(self, name: Name) -> None:
        """The watch delivers changes in order, a little later."""
        collection, world = name[0], self._world
        if collection == RULES:
            self._after(world.random.uniform(0, 0.3), lambda: self._rule_status(name[2]))
        elif collection in self._followed:
            life = self._followed[collection]
            there, version = self._cluster.documents.get(name), self._cluster.version
            annotations = dict(self._cluster.annotations.get(name[2], {}))
            due = self._lags[collection] = max(self._lags[collection], world.now + world.random.uniform(0, 0.3))

            def tell() -> None:
                if self._followed.get(collection) == life:
                    self._observe(name, there, annotations, version)

            self._after(due - world.now, tell)

    def _rule_status(self, name: str) -> None:
        if (RULES, "", name) in self._cluster.documents:
            self.rule_changed(name)

    def _observe(self, name: Name, there: Observed | None, annotations: dict[str, str], version: str) -> None:
        hub, now = self.hub, self._world.now
        if name[0] == EDGE_NODES:
            self._world.annotations_seen(self, name[2], annotations if there is not None else {})
            if there is None:
                hub.documents.edge_node_vanished(name[2], now, version)
            else:
                hub.documents.edge_node_observed(name[2], there, annotations, now)
        elif there is None:
            hub.documents.vanished(name, node_of(name), version)
        elif not hub.documents.is_echo(name, there.version, lambda: there):
            hub.documents.observed(name, node_of(name), there)

    def _lister(self, collection: str) -> Callable[[], None]:
        return lambda: self._list_documents(collection)

    def _list_documents(self, collection: str) -> None:
        self._follow(collection)
        names = [name for name in self._cluster.documents if name[0] == collection]
        for name in names:
            annotations = dict(self._cluster.annotations.get(name[2], {}))
            self._observe(name, self._cluster.documents[name], annotations, self._cluster.version)
        listed = {f"{name[1]}/{name[2]}" for name in names}
        if collection == EDGE_NODES:
            for node in self.hub.node_controls.pauses.keys() - {name[2] for name in names}:
                self._world.annotations_seen(self, node, {})
        self.hub.documents.named(collection, listed, self._cluster.version, self._world.now)
        self.hub.documents.listed(collection, self._world.now)
        self._follow_kind()
        if collection == EDGE_NODES:
            self._world.edge_nodes_listed(self)

    # ---- connections -----------------------------------------------------------------------------

    def arrived(self, link: Link, frame: bytes) -> None:
        """A frame of an edge."""
        ref = link.session
        header, content = codec.decode_from_edge(frame)
        if ref is None:
            assert isinstance(header, message.Hello)
            opened = self.hub.sessions.open(link.node, header, self._world.now)
            if isinstance(opened, message.Refuse):
                self._world.deliver(link, codec.encode(opened))
                return
            link.session = opened
            self.links[opened] = link
            return
        session = self.hub.open_sessions.find(ref)
        if ref not in self.links or session is None:
            return
        try:
            self.hub.sessions.receive(ref, header, content, self._world.now)
        except RemoteError as error:
            raise LawBroken(f"an edge is accused of a malformed frame: {error}") from error
        self._world.is_heard(session, header)

    def closed(self, link: Link) -> None:
        """The connection is gone, and the hub notices."""
        if link.session is not None and self.links.pop(link.session, None) is not None:
            self.hub.sessions.closed(link.session, self._world.now)

    def _judged_frames(self, session: NodeSession, now: float) -> list[Frame]:
        guard = self.hub.node_controls.guard(session.node)
        was_stopped = guard is not None and guard.stops
        if guard is not None:
            # Read it first: the guard may trip again while the frames are made, and then no longer names the approval.
            self._world.is_allowed(session.node, guard._allowed)
        frames = self._frames(session, now)
        self._world.is_sent(self, session, frames, was_stopped)
        return frames

    def _send(self, output: SessionOutput) -> None:
        link = self.links.get(output.session)
        if link is None:
            return
        for header, content in output.frames:
            self._world.deliver(link, codec.encode(header, content))
        if output.cut:
            if output.cut != SILENT:
                raise LawBroken(f"{output.session.node}: {output.cut}")
            link.break_off()
        if output.cut or output.closing is not None:
            self.closed(link)
        elif seconds := self._world.crowded_seconds():
            self.hub.sessions.room(output.session, False)
            self._after(seconds, lambda: self.hub.sessions.room(output.session, True))


def node_of(name: Name) -> str:
    """The node that a document of the hub is about; "" for that of a rule."""
    if name[0] == RULES:
        return ""
    return name[2].rpartition(".")[0] if name[0] != EDGE_NODES else name[2]
