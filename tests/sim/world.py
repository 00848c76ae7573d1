"""A seeded world for objects going down: a cluster, a hub, some edges, bad links, and everything that goes wrong.

The cores are the real ones: ``Hub`` behind its typed methods and ``take_ready``, ``EdgeSession`` over the in-memory
store of the edge, and an in-memory API server.  The clock, the network, the disks and the users are simulated from one
seed, so a failing seed replays exactly.

Laws, checked while it runs and at the end:
1. Nothing is acknowledged, and no ObjectSync names anything, that was never on the edge's disk: the hub's account may
   lag, never lead.
2. After the network has calmed every edge holds exactly what it should hold: no more, no less, no older.
3. The hub's account of every edge says the same, and so do its documents: an ObjectSync for each object, and no others;
   nothing is left of a deleted node.
4. At most one message is in flight for a key, until it is answered or its deadline has passed.
5. Nothing is deleted that the node should hold: neither a cache that was not listed yet nor an unreadable rule proves
   that an object is unwanted.  And nothing is sent to a deleted node.
6. After a tick nothing is due, unless something can be sent.
7. While an EdgeNode says paused, nothing about objects is sent to its node, not even by a hub that has just started.
8. While a deletion guard has tripped nothing is removed; and never more than allowed in the window, unless approved.
9. A hub that starts guards the nodes that are guarded according to its predecessor's documents.
10. Nothing about an object that the hub knows to be paused is sent to any node: no update, no delete.
11. The records of a node that is away are true some seconds later: Behind if something newer is wanted, Deleting if
    nothing is, Synced otherwise.  And if it says Synced, the held version is the wanted one.
12. No more is sent than the overall rate limit allows.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from tests.sim.cluster import Cluster
from tests.sim.edge import Edge
from tests.sim.hub import HubShell, node_of
from tests.sim.laws import LawBroken
from tests.sim.link import Link

from fairlead_edge.objects.session_events import FrameReceived
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.session_ref import Frame
from fairlead_hub.settings import DeletionGuardSettings, HubSettings, RateLimit, Reconcile, RecordSettings, WindowLimits
from fairlead_hub.settings import LinkServerSettings as LinkSettings
from fairlead_hub.status import object_sync
from fairlead_hub.status.object_sync_status import COLLECTIONS
from fairlead_hub.status.status_cache import Name
from fairlead_wire import message
from fairlead_wire.objects import resource
from fairlead_wire.objects.api_group import APPROVE_DELETIONS, PAUSED

CALM_SECONDS = 900.0
"""Longer than all retries of an object, a parking, a silent link and some approvals together."""
BUSY_STEPS = 30
STILL_SECONDS = 45.0
"""After everything has come right it stays right."""
FULL_BYTES = 150
"""The size of a disk that has space for one object or two."""
ROOM_BYTES = 1 << 40
NODES = ("edge-0", "edge-1")
SLOW_PASS_SECONDS = 20.0
NEVER_SECONDS = 86_400.0
"""In two of three worlds the slow pass repairs nothing, so that events alone must put everything right."""
REMOVALS_MAX = 1
WINDOW_SECONDS = 20.0
RATE = 3.0
BURST = 2


class Chances(msgspec.Struct, frozen=True, kw_only=True):
    """How bad the world is: chance of each thing in each step of about a third of a second."""

    change: float = 0.4
    rule_changes: float = 0.03
    node_relabelled: float = 0.01
    node_deleted: float = 0.006
    link_breaks: float = 0.04
    link_half_opens: float = 0.01
    link_crowded: float = 0.03
    unnoticed: float = 0.3
    """The share of broken links that the hub does not notice."""
    edge_crashes: float = 0.02
    disk_wiped: float = 0.004
    disk_restored: float = 0.006
    disk_full: float = 0.03
    hub_killed: float = 0.015
    watch_lost: float = 0.02
    api_away: float = 0.02
    api_restored: float = 0.004
    meddled: float = 0.03
    object_paused: float = 0.05
    objects_resumed: float = 0.04
    paused: float = 0.02
    resumed: float = 0.08
    approved: float = 0.03
    power_fails_between_effects: float = 0.002


class World:
    """``run`` plays ``steps`` bad steps and then a calm time.  Raises ``LawBroken``.

    Every other world has a deletion guard, in most of them objects are paused, too.  ``acks_before_commit`` plants the
    classic mistake.
    """

    hub: HubShell

    def __init__(self, seed: int, *, chances: Chances | None = None, acks_before_commit: bool = False) -> None:
        self.random = Random(seed)
        self._crowding = Random(f"crowded {seed}")  # separate, so that worlds that once broke a law do not change
        self.chances = chances or Chances()
        self.now = 0.0
        self.calm = False
        self.fence = 0
        self.pauses = self.object_pauses = self.guards = 0
        self._pausing = Random(f"{seed}/object pauses") if seed % 7 not in (4, 5) else None
        """A separate random source, so that worlds that once broke a law do not change."""
        self.settings = HubSettings(
            security="insecure",
            deletion_guard=DeletionGuardSettings(removals_max=REMOVALS_MAX * (seed % 2), window_seconds=WINDOW_SECONDS),
            reconcile=Reconcile(
                interval_seconds=SLOW_PASS_SECONDS if seed % 3 == 0 else NEVER_SECONDS, parked_retry_seconds=30
            ),
            window=WindowLimits(messages=3),
            link=LinkSettings(keepalive_seconds=10),
            # Not together with a deletion guard: law 8 assumes a hub that sends at once after an approval.
            rate_limit=RateLimit(objects_per_second=RATE if seed % 14 in (6, 8) else 0, burst=BURST),
            record=RecordSettings(away_writes_per_second=0 if self._pausing is None else 100),
        )
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self.cluster = Cluster(self.random, objects=6, nodes=NODES)
        self.edges = {
            name: Edge(
                name,
                self.random,
                self.schedule,
                lambda: self.now,
                acks_before_commit=acks_before_commit,
                power_fails=lambda: not self.calm and self.happens(self.chances.power_fails_between_effects),
            )
            for name in NODES
        }
        self.links: dict[str, Link] = {}
        """As the edges see them."""
        self.ids: list[str] = []
        """Of every deletion guard that ever tripped."""
        self._judged: dict[Name, object] = {}
        self._flights: dict[NodeSession, dict[str, tuple[int, float]]] = {}
        """By session: what was sent and not answered, by path → its id and when."""
        self._start_hub()

    # ---- time ------------------------------------------------------------------------------------

    def schedule(self, due: float, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._timers, (due, self._order, action))

    def run(self, steps: int = 120) -> None:
        for _ in range(steps):
            self._advance(self.random.uniform(0.05, 0.6))
            self._misbehave()
        self._calm_down()
        self._wait_until_right(self._difference)
        # What events did not tell, because a crash or a race left it half done, the slow pass finds.
        self._slow_pass()
        self._wait_until_right(lambda: self._difference() or self._difference_of_documents())
        if self._pausing is not None:
            self._be_away(self._pausing)
            self._wait_until_right(lambda: self._difference() or self._difference_of_documents())
        ends = self.now + STILL_SECONDS
        while self.now < ends:
            self._calm_step()
        if why := self._difference() or self._difference_of_documents():
            raise LawBroken(f"{why}, and it was right before")

    def _slow_pass(self) -> None:
        self.hub.hub.reconcile(self.now)
        self.schedule(self.now + CALM_SECONDS / 3, self._slow_pass)

    def _wait_until_right(self, difference: Callable[[], str], *, resume: bool = True) -> None:
        ends = self.now + CALM_SECONDS
        while why := difference():
            if self.now >= ends:
                raise LawBroken(why)
            self._calm_step(resume=resume)

    def _advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            due, _, action = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            action()
        self.now = until
        self._judge_documents()
        for edge in self.edges.values():
            if edge.sync is None and self.now >= edge.retry_at and (self.calm or self.happens(0.5)):
                self._connect(edge)

    # ---- misfortune ------------------------------------------------------------------------------

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def _misbehave(self) -> None:
        chances, cluster = self.chances, self.cluster
        if self.happens(chances.change):
            cluster.change_object()
        if self.happens(chances.rule_changes):
            cluster.change_rule()
        if self.happens(0.05):
            cluster.back_up()
        if self.happens(chances.api_restored):
            cluster.restore()
            self._judged.clear()
            if not self.hub.has_listed:
                self._start_hub()  # the version that would tell it so is not known to it yet
            self.hub.restored()
        if self.happens(chances.hub_killed):
            self._start_hub()
        if self.happens(chances.watch_lost):
            self.random.choice([self.hub.lose_kind, self.hub.lose_documents])()
        if self.happens(chances.api_away):
            cluster.away = not cluster.away
        if self.happens(chances.meddled):
            cluster.meddle()
        if self.happens(0.3):
            cluster.collect_garbage()
        if self._pausing is not None:
            self._pause_objects(self._pausing)
        for edge in self.edges.values():
            self._misbehave_at_node(edge.name)
            self._misbehave_at_edge(edge)

    def _pause_objects(self, random: Random) -> None:
        if random.random() < self.chances.object_paused:
            self.object_pauses += 1
            self.cluster.pause_object(random.choice(self.cluster.object_names), "sim")
        if random.random() < self.chances.objects_resumed:
            self.cluster.pause_object(random.choice(self.cluster.object_names), None)

    def _misbehave_at_node(self, name: str) -> None:
        chances, cluster = self.chances, self.cluster
        if self.happens(chances.node_relabelled):
            cluster.relabel_node(name)
        if name not in cluster.nodes:
            if self.happens(0.1):
                cluster.create_node(name)
        elif self.happens(chances.node_deleted):
            cluster.delete_node(name)
        guard = cluster.deletion_guard(name)
        if guard is not None and guard["id"] not in self.ids:
            self.ids.append(guard["id"])
        if self.happens(chances.paused):
            self.pauses += 1
            cluster.annotate(name, PAUSED, "sim")
        if self.happens(chances.resumed):
            cluster.annotate(name, PAUSED, None)
        if self.ids and self.happens(chances.approved):
            cluster.annotate(name, APPROVE_DELETIONS, self.random.choice(self.ids))
        if guard is not None and self.happens(chances.approved):
            cluster.annotate(name, APPROVE_DELETIONS, guard["id"])

    def _misbehave_at_edge(self, edge: Edge) -> None:
        chances = self.chances
        if self.happens(chances.link_breaks):
            self._break(edge)
        if self.happens(chances.link_half_opens) and edge.name in self.links:
            self.links[edge.name].swallows.add(self.random.choice(["up", "down"]))
        if self.happens(0.02):
            edge.copy_disk()
        if self.happens(chances.disk_full):
            edge.fill(self.random.choice([FULL_BYTES, ROOM_BYTES]))
        for chance, misfortune in (
            (chances.edge_crashes, edge.crash),
            (chances.disk_wiped, edge.wipe),
            (chances.disk_restored, edge.restore_disk),
        ):
            if self.happens(chance):
                misfortune()
                self._break(edge)

    def _break(self, edge: Edge) -> None:
        link = self.links.pop(edge.name, None)
        edge.disconnect()
        if link is not None:
            link.break_off()
            if self.calm or not self.happens(self.chances.unnoticed):
                self.hub.closed(link)

    def _start_hub(self) -> None:
        """A new process: it knows only what the API server tells it, which may take a while."""
        if self.fence:
            self.hub.kill()
        self.fence += 1
        for name in list(self.links):
            self.links.pop(name)
            self.edges[name].disconnect()
        self._flights.clear()
        self.known_paused: dict[str, bool] = {}
        self.known_paused_objects: set[str] = set()
        self._tokens, self._tokens_at = float(BURST), self.now
        self.approved: dict[str, set[str]] = {name: set() for name in NODES}
        self.removed: dict[str, dict[str, float]] = {name: {} for name in NODES}
        """Keys whose removal this hub sent without approval → when last."""
        self._lives: dict[str, str] = {}
        self._is_starting = True
        self.hub = HubShell(self, self.settings, self.fence)

    # ---- connections -----------------------------------------------------------------------------

    def _connect(self, edge: Edge) -> None:
        old = self.links.pop(edge.name, None)
        if old is not None:
            # The edge closed it; the hub learns of that, or gets the next connection first.
            old.break_off()
            if self.happens(0.5):
                self.hub.closed(old)
        link = self.links[edge.name] = Link(self.random, self.schedule, lambda: self.now, edge.name)
        shell = self.hub
        edge.connect(lambda frame: link.send("up", frame, lambda arrived: shell.arrived(link, arrived)))

    def deliver(self, link: Link, frame: bytes) -> None:
        edge = self.edges[link.node]
        link.send("down", frame, lambda arrived: self._at_edge(edge, link, arrived))

    def crowded_seconds(self) -> float:
        """How long a connection that took some frames takes no more; 0: it takes them."""
        if self.calm or self._crowding.random() >= self.chances.link_crowded:
            return 0.0
        return self._crowding.uniform(0.01, 1)

    def _at_edge(self, edge: Edge, link: Link, frame: bytes) -> None:
        if edge.sync is not None and self.links.get(edge.name) is link:
            edge.handle(edge.sync, FrameReceived(frame))

    # ---- laws about what is sent and heard -------------------------------------------------------

    def is_allowed(self, node: str, keys: set[str]) -> None:
        """A person approved the removal of these keys, and the hub knows them."""
        self._begin_life(node)
        self.approved[node] |= keys

    def is_sent(self, shell: HubShell, session: NodeSession, frames: list[Frame], was_stopped: bool) -> None:
        node = session.node
        guard = shell.hub.node_controls.guard(node)
        self._begin_life(node)
        if guard is not None:
            if guard.approved and not self.approved[node]:
                # Approved before this hub knew what was due: the approval covers what is due once it does.
                self.approved[node] |= guard.due
            self.guards += guard.stops and not was_stopped
        flights = self._flights.setdefault(session, {})
        for header, _ in frames:
            if not isinstance(header, message.Update | message.Delete):
                continue
            at = f"at {self.now:.2f}: {header.resource}"
            _, before = flights.get(header.resource, (0, float("-inf")))
            if self.now - before < self.settings.delivery.ack_timeout - 1e-6:
                raise LawBroken(f"law 4 {at} is sent to {node}, and was {self.now - before:.2f} s ago")
            flights[header.resource] = (header.id, self.now)
            if node not in self.cluster.nodes:
                raise LawBroken(f"law 5 {at} is sent to {node}, which is gone")
            if self.known_paused.get(node, PAUSED in self.cluster.annotations.get(node, ())):
                raise LawBroken(f"law 7 {at} is sent to {node}, which is paused")
            if self.settings.rate_limit.objects_per_second:
                self._count_token(at)
            if header.uid in self.known_paused_objects:
                raise LawBroken(f"law 10 {at} is sent to {node}, and the object is paused")
            if isinstance(header, message.Delete):
                desired = self.cluster.desired(node).get(header.resource)
                if desired is not None and desired.uid == header.uid:
                    raise LawBroken(f"law 5 {at} is removed from {node}, which should hold it")
                self._check_removal(node, resource.parse(header.resource).key, was_stopped)

    def _count_token(self, at: str) -> None:
        self._tokens = min(BURST, self._tokens + RATE * (self.now - self._tokens_at)) - 1
        self._tokens_at = self.now
        if self._tokens < -1e-3:
            raise LawBroken(f"law 12 {at} is sent, {-self._tokens:.3f} above the rate limit")

    def _begin_life(self, node: str) -> None:
        """A recreated Node is another one: nothing that was counted before applies to it."""
        uid = self.cluster.nodes[node][0] if node in self.cluster.nodes else ""
        if self._lives.setdefault(node, uid) != uid:
            self.node_forgotten(node)

    def node_forgotten(self, node: str) -> None:
        """The hub learned that the Node was deleted.  A restore may bring the same one back, including its guard."""
        self._lives.pop(node, None)
        self.removed[node], self.approved[node] = {}, set()

    def _check_removal(self, node: str, key: str, was_stopped: bool) -> None:
        if not self.settings.deletion_guard.removals_max or key in self.approved[node]:
            return
        if was_stopped:
            raise LawBroken(f"law 8 at {self.now:.2f}: {key} is removed from {node}, whose guard has tripped")
        removed = self.removed[node]
        removed[key] = self.now
        lately = [each for each, at in removed.items() if self.now - at <= WINDOW_SECONDS]
        if len(lately) > REMOVALS_MAX:
            raise LawBroken(f"law 8 at {self.now:.2f}: {lately} are removed from {node} within the window")

    def is_heard(self, session: NodeSession, header: message.FromEdge) -> None:
        if isinstance(header, message.Ack | message.Nack):
            all_below = isinstance(header, message.Ack) and header.cumulative
            for path, (id, _) in list(self._flights.get(session, {}).items()):
                if id == header.parent_id or (all_below and id < header.parent_id):
                    del self._flights[session][path]
        if not session.keys.live:
            return
        durable = self.edges[session.node].ever_durable
        for held in session.keys.held.values():
            if (held.uid, held.digest) not in durable:
                raise LawBroken(f"law 1 at {self.now:.2f}: {session.node} never stored {held.path} as the hub believes")

    def annotations_seen(self, shell: HubShell, node: str, annotations: dict[str, str]) -> None:
        """The watch is about to report the annotations of this node."""
        self.known_paused[node] = PAUSED in annotations
        guard = shell.hub.node_controls.guard(node)
        if guard is None or not guard.stops or guard.tripped is None:
            return
        if guard.tripped.id == annotations.get(APPROVE_DELETIONS):
            self.approved[node] |= guard.due
            for key in guard.due:
                self.removed[node].pop(key, None)

    def objects_seen(self) -> None:
        """The watch is about to report the objects."""
        self.known_paused_objects = self.cluster.paused_objects()

    def edge_nodes_listed(self, shell: HubShell) -> None:
        starting, self._is_starting = self._is_starting, False
        for name in NODES:
            self.known_paused.setdefault(name, False)
        for name in NODES if starting else ():
            guarded, guard = self.cluster.deletion_guard(name), shell.hub.node_controls.guard(name)
            if guarded and (guard is None or guard.tripped is None or guard.tripped.id != guarded["id"]):
                raise LawBroken(f"law 9: {name} was guarded under {guarded['id']}, the new hub does not know")

    def _judge_documents(self) -> None:
        """Law 1, for every ObjectSync that was written since."""
        for name, there in self.cluster.documents.items():
            if name[0] not in COLLECTIONS or self._judged.get(name) is there:
                continue
            self._judged[name] = there
            body = {"metadata": {"namespace": name[1]}, "spec": there.head["spec"], "status": there.status}
            record = object_sync.parse(body)
            if record is not None and record.digest and (record.uid, record.digest) not in self._durable(record.node):
                raise LawBroken(f"law 1 at {self.now:.2f}: {name} names content that {record.node} never had")
            if record is not None and record.state == "Synced" and record.version not in ("", record.wanted_version):
                raise LawBroken(f"law 11 at {self.now:.2f}: {name} is Synced, and names two versions")

    def _durable(self, node: str) -> set[tuple[str, str]]:
        return self.edges[node].ever_durable

    # ---- calm ------------------------------------------------------------------------------------

    def _calm_down(self) -> None:
        self.calm = True
        self.cluster.mend_rules()
        stays_gone = self.random.choice([*NODES, *[""] * 6])
        for edge in self.edges.values():
            edge.fill(ROOM_BYTES)
            if edge.name == stays_gone:
                self.cluster.delete_node(edge.name)
            elif edge.name not in self.cluster.nodes:
                self.cluster.create_node(edge.name)
            link = self.links.get(edge.name)
            if link is not None and link.swallows:
                self._break(edge)
        for _ in range(BUSY_STEPS):
            # Only status writes may still fail, so that a new connection does not hide what is forgotten now.
            self.cluster.change_object()
            self._advance(self.random.uniform(0, 0.3))
        self.cluster.away = False

    def _be_away(self, random: Random) -> None:
        """A node goes away, objects change meanwhile, sometimes another hub takes over; then the node comes back."""
        edge = self.edges[random.choice(NODES)]
        if edge.name not in self.cluster.nodes:
            return
        self._break(edge)
        edge.retry_at = float("inf")
        if random.random() < 0.3:
            self._start_hub()
        for _ in range(random.randrange(8)):
            name = random.choice(self.cluster.object_names)
            self.cluster.pause_object(name, "sim" if random.random() < 0.3 else None)
            self.cluster.change_object()
            self._advance(random.uniform(0, 5))
        self._wait_until_right(lambda: self._difference_of_away(edge.name), resume=False)
        edge.retry_at = self.now

    def _difference_of_away(self, node: str) -> str:
        held = self.edges[node].held()
        expected = {
            live.uid: "Synced" if held.get(path) == (live.uid, live.digest) else "Behind"
            for path, live in self.cluster.desired(node).items()
        }
        paused = self.cluster.paused_objects()
        for uid, _ in held.values():
            expected.setdefault(uid, "Synced" if uid in paused else "Deleting")
        said = {
            there.head["spec"]["objectUID"]: there.status.get("state")
            for name, there in self.cluster.documents.items()
            if name[0] in COLLECTIONS and node_of(name) == node
        }
        if said == expected:
            return ""
        return f"law 11: ObjectSyncs of {node}, which is away, say {said}, the truth is {expected}"

    def _calm_step(self, *, resume: bool = True) -> None:
        for name in self.cluster.object_names if resume else ():
            self.cluster.pause_object(name, None)
        for node in NODES:
            self.cluster.annotate(node, PAUSED, None)
            guard = self.cluster.deletion_guard(node)
            if guard is not None and not guard["approved"]:
                self.cluster.annotate(node, APPROVE_DELETIONS, guard["id"])
        self.cluster.collect_garbage()
        self._advance(2.0)

    def _difference(self) -> str:
        """How what edges hold, or the hub believes they hold, differs from what it should be; "" if it does not."""
        for name, edge in self.edges.items():
            if name not in self.cluster.nodes:
                continue
            expected = {path: (live.uid, live.digest) for path, live in self.cluster.desired(name).items()}
            if edge.held() != expected:
                return f"law 2: {name} holds {edge.held()}, it should hold {expected}"
            session = self.hub.hub.open_sessions.by_node.get(name)
            if session is None or not session.keys.live:
                return f"law 3: {name} has no live session in calm weather"
            account = {held.path: (held.uid, held.digest) for held in session.keys.held.values()}
            if account != expected:
                return f"law 3: the hub believes {name} holds {account}, the disk says {expected}"
        return ""

    def _difference_of_documents(self) -> str:
        """The same for the documents in the API."""
        for node in NODES:
            documents = {name: there for name, there in self.cluster.documents.items() if node_of(name) == node}
            if node not in self.cluster.nodes:
                if documents:
                    return f"law 3: {node} is gone, and {sorted(documents)} are left"
                continue
            edge_node = documents.pop((EDGE_NODES, "", node), None)
            said = {there.head["spec"]["objectUID"]: _said(there.status) for there in documents.values()}
            truth = {live.uid: ("Synced", live.digest, True) for live in self.cluster.desired(node).values()}
            if said != truth:
                return f"law 3: ObjectSyncs of {node} say {said}, the truth is {truth}"
            if edge_node is None or not edge_node.status.get("connected"):
                return f"law 3: EdgeNode {node} does not say that it is connected"
            if edge_node.status.get("paused") or edge_node.status.get("deletionGuard"):
                return f"law 3: EdgeNode {node} says that it is paused or guarded"
        return ""


def _said(status: dict[str, Any]) -> tuple[Any, Any, bool]:
    """What an ObjectSync says: its state, the content, and whether that is the newest."""
    is_newest = status.get("objectResourceVersion") == status.get("wantedResourceVersion")
    return status.get("state"), status.get("objectDigest"), is_newest
