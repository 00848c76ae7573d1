"""The hub's core: the cluster's state on one side, the nodes' sessions on the other.  Pure; the rim calls it.

    objects, rules, nodes ─observe─▶ Catalog, Placement ─who is concerned─▶ NodeSession.offer
    frames from edges ─────────────▶ NodeSession ─outcomes─▶ Records ─▶ Book (written behind)

After every call ``woken`` names the sessions that have something to send.  There is no queue for a node that is away:
what it should hold is derived from catalog and rules when it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from fairlead_hub import content, edge_node, happenings, ledger, rules
from fairlead_hub.catalog import Catalog, Change
from fairlead_hub.content import EDGE_ROUTES, GroupKind, Kind, LiveObject
from fairlead_hub.counts import Counts
from fairlead_hub.node_session import NodeSession
from fairlead_hub.outcomes import Acked, Compared, Parked, Removed, Retried, Unparked
from fairlead_hub.placement import Placement, Wish
from fairlead_hub.records import COLLECTIONS, Records
from fairlead_hub.settings import Settings
from fairlead_wire import codec, message

FENCE_MAX = 1 << 53
EDGE_NODES = "edgenodes"
NODE_GONE_RETRY_SECONDS = 30.0
REPLACED_RETRY_SECONDS = 60.0
"""A second machine with the same identity: long enough that two of them do not throw each other out all day."""
BUSY_RETRY_SECONDS = 5.0
RETURN_SECONDS = 30.0
"""How long after a start nodes that were connected are given to return before they are called away."""
COUNTS_SECONDS = 10.0
"""A node being brought up to date changes its counts all the time: they are written at most this often."""
REPORT_SECONDS = 180.0
"""EdgeNode is written at most this often for queue lengths and contact times alone."""

_status = msgspec.json.Decoder(message.EdgeStatus)


class Hub:
    """See the module.  ``now`` is seconds of one monotonic clock."""

    def __init__(self, settings: Settings, *, name: str, fence: int, wall_offset: float) -> None:
        self.settings = settings
        self.name = name
        self.catalog = Catalog()
        self.placement = Placement(self.catalog, settings.delivery)
        self.book = ledger.Book()
        self.records = Records(self.book, fence=fence)
        self.records.wall_offset = wall_offset
        self.counts = Counts()
        self.happenings = happenings.Happenings()
        self.sessions: dict[str, NodeSession] = {}
        self.node_uids: dict[str, str] = {}
        self.edges: dict[str, message.EdgeStatus] = {}
        """What connected edges said of themselves last."""
        self.granted: dict[str, frozenset[str]] = {}
        """Topics ever granted, by node; filled from EdgeNode documents at start."""
        self.woken: set[NodeSession] = set()
        self._audits: set[str] = set()
        self._audit_all = False
        self._next_session = 1
        self._reported: dict[str, float] = {}
        self._unreported: set[str] = set()
        self._live_kinds: dict[str, Kind] = {}
        self._met: set[str] = set()
        """Nodes that had a session with this process."""
        self._first_report: float | None = None
        self._returned = False
        """Whoever wanted to come back after our start has had the time."""

    @property
    def fence(self) -> int:
        return self.records.fence

    @fence.setter
    def fence(self, value: int) -> None:
        self.records.fence = value

    # ---- View: what sessions ask -----------------------------------------------------------------

    def wish(self, node: str, key: str) -> Wish | None:
        live = self.catalog.get(key)
        return None if live is None else self.placement.wish(node, live)

    def wanted(self, node: str) -> dict[str, LiveObject]:
        return self.placement.wanted(node)

    def doubt(self, node: str, key: str) -> str:
        type = key.partition("/")[0]
        known = self._live_kinds.get(type)
        if known is not None:
            return self.placement.doubt(node, known.group_kind)
        # Held from an earlier life, and discovery does not know the type: no rule may name it any more, or its
        # definition is gone.  Any frozen kind of its group that discovery never found may be this one.
        group = type.partition(".")[2]
        found = {kind.group_kind for kind in self._live_kinds.values()}
        for frozen in self.placement.frozen:
            if frozen[0] == group and frozen not in found:
                return self.placement.doubt(node, frozen)
        return self.placement.doubt(node, (group, ""))

    def waiting_for(self, node: str) -> str:
        return self.placement.waiting_for(node)

    # ---- the cluster -----------------------------------------------------------------------------

    def know_kind(self, kind: Kind) -> None:
        """Discovery found what a rule names."""
        self._live_kinds[kind_type(kind)] = kind
        self.records.kinds = self._live_kinds

    def put_object(self, live: LiveObject, now: float) -> None:
        before_nodes: set[str] = set()
        if live.group_kind == EDGE_ROUTES:
            before_nodes = self.placement.nodes_for(live)
            self._read_routes(live)
        change = self.catalog.put(live)
        if change is None:
            self.counts.same_content += 1
            return
        self._changed(change, now, before_nodes)

    def remove_object(self, key: str, uid: str, now: float) -> None:
        live = self.catalog.get(key)
        before_nodes: set[str] = set()
        if live is not None and live.group_kind == EDGE_ROUTES and live.uid == uid:
            before_nodes = self.placement.nodes_for(live)
            self.placement.routes.pop(live.resource.name, None)
            self.placement.broken.pop(f"edgeroutes/{live.resource.name}", None)
        change = self.catalog.remove(key, uid)
        if change is not None:
            self._changed(change, now, before_nodes)

    def relist(self, kind: GroupKind, uids: Mapping[str, str], now: float) -> None:
        """A list is complete: what we had and it does not name is gone."""
        for live in list(self.catalog.of_kind(kind).values()):
            if uids.get(live.key) != live.uid:
                self.remove_object(live.key, live.uid, now)

    def kind_synced(self, kind: GroupKind) -> None:
        self.placement.frozen.pop(kind, None)
        if kind not in self.placement.synced:
            self.placement.synced.add(kind)
            if kind == EDGE_ROUTES:
                self.input_synced("edgeroutes")
            self._audit_all = True

    def kind_unsynced(self, kind: GroupKind) -> None:
        """The watch broke in a way that needs a new list; until then nothing of it is taken away."""
        self.placement.synced.discard(kind)

    def kind_frozen(self, kind: GroupKind, reason: str) -> None:
        """It cannot be listed: what edges hold of it stays."""
        first = kind not in self.placement.frozen
        self.placement.synced.discard(kind)
        self.placement.frozen[kind] = reason
        if first:
            self._audit_all = True

    def kind_dropped(self, kind: GroupKind, now: float) -> None:
        """No rule names it any more."""
        self.placement.synced.discard(kind)
        self.placement.frozen.pop(kind, None)
        self.catalog.forget_kind(kind)
        self._audit_all = True

    def input_synced(self, name: str) -> None:
        """One of ``placement.INPUTS`` is listed."""
        if name not in self.placement.inputs_synced:
            self.placement.inputs_synced.add(name)
            self._audit_all = True

    def set_node(self, name: str, uid: str, labels: Mapping[str, str], now: float) -> None:
        """An edge Node exists, as it is now.  A new UID is a new node: the old one's records go."""
        known = self.node_uids.get(name)
        if known is not None and known != uid:
            self.drop_node(name, now)
        self.node_uids[name] = uid
        if self.placement.set_node(name, labels):
            self._audits.add(name)

    def drop_node(self, name: str, now: float) -> None:
        """The Node was deleted, or is no edge any more."""
        self.node_uids.pop(name, None)
        self.placement.drop_node(name)
        session = self.sessions.get(name)
        if session is not None:
            self._refuse(
                session, "node_deleted", f"Node {name} was deleted or is no edge node", NODE_GONE_RETRY_SECONDS
            )
        self.granted.pop(name, None)
        self._met.discard(name)
        self.counts.records_collected += self.records.forget_node(name)
        self.book.want(ledger.Removal(name=(EDGE_NODES, "", name), node=name))

    def set_rule(self, rule: rules.Rule) -> None:
        self._audits |= self.placement.set_rule(rule)

    def drop_rule(self, name: str) -> None:
        self._audits |= self.placement.drop_rule(name)
        self._audit_all = True

    def break_rule(self, name: str, reason: str) -> None:
        """It cannot be read: what it selected before goes on, and nothing is deleted until it is mended."""
        self.placement.broken[f"syncrules/{name}"] = reason

    def _read_routes(self, live: LiveObject) -> None:
        name = live.resource.name
        try:
            self.placement.routes[name] = rules.routes(content.unpacked(live))
        except ValueError as error:
            self.placement.broken[f"edgeroutes/{name}"] = str(error)
            return
        self.placement.broken.pop(f"edgeroutes/{name}", None)
        for node in self.sessions:
            self._grant(node)

    def _changed(self, change: Change, now: float, nodes: set[str]) -> None:
        for live in (change.before, change.after):
            if live is not None:
                nodes |= self.placement.nodes_for(live)
        if change.after is None:
            self.placement.forget(change.key)
        for node in nodes:
            self._offer(node, change.key, now)
        self._references_changed(change, now)

    def _references_changed(self, change: Change, now: float) -> None:
        """A Pod came, went or changed: what it refers to may be wanted by its node now, or no longer."""
        before, after = change.before, change.after
        where_before = before.node_name if before is not None else ""
        where_after = after.node_name if after is not None else ""
        if where_before == where_after and before is not None and after is not None:
            if before.references != after.references:
                for key in before.references ^ after.references:
                    self._offer(where_after, key, now)
            return
        for where, live in ((where_before, before), (where_after, after)):
            if where and live is not None:
                for key in live.references:
                    self._offer(where, key, now)

    def _offer(self, node: str, key: str, now: float) -> None:
        session = self.sessions.get(node)
        if session is not None:
            session.offer(key, now)
            self._drain(session, now)
            if session.has_frames:
                self.woken.add(session)

    def settle(self, now: float) -> None:
        """After a burst of changes of rules, labels or watches: compare sessions again with what they should hold."""
        if self._audit_all:
            self._audits.update(self.sessions)
            self._audit_all = False
        if not self._audits:
            return
        nodes_known = "nodes" in self.placement.inputs_synced
        for node in self._audits & self.sessions.keys():
            session = self.sessions[node]
            if nodes_known and node not in self.placement.nodes:
                self._refuse(session, "node_unknown", _unknown(node), NODE_GONE_RETRY_SECONDS)
                continue
            self._grant(node)
            session.try_compare()
            session.audit(now)
            self._drain(session, now)
            self.woken.add(session)
        self._audits.clear()

    # ---- sessions --------------------------------------------------------------------------------

    def open(self, node: str, hello: message.Hello, now: float) -> NodeSession | message.Refuse:
        """An edge said hello; ``node`` is what its certificate says (or its word, where security is off)."""
        refusal = self._refusal(node, hello)
        if refusal is not None:
            self.counts.refused[refusal.code] = self.counts.refused.get(refusal.code, 0) + 1
            return refusal
        old = self.sessions.get(node)
        if old is not None:
            self._refuse(old, "replaced", "a newer connection of this node took over", REPLACED_RETRY_SECONDS)
        session = NodeSession(
            node=node,
            number=self._next_session,
            hello=hello,
            view=self,
            limits=self.settings.window,
            policy=self.settings.delivery,
            reconcile=self.settings.reconcile,
            held_max=self.settings.link.held_max,
            keepalive_seconds=self.settings.link.keepalive_seconds,
            now=now,
        )
        self._next_session += 1
        self.sessions[node] = session
        self.counts.handshakes += 1
        self._met.add(node)
        welcome = message.Welcome(
            hub=self.name,
            fence=self.fence,
            session=session.number,
            keepalive_seconds=self.settings.link.keepalive_seconds,
            frame_bytes_max=4 * 1024 * 1024,
            upstream_window=self.settings.link.upstream_window,
        )
        session.welcome(welcome, now)
        self._grant(node)
        self._drain(session, now)
        self.woken.add(session)
        self._unreported.add(node)
        return session

    def _refusal(self, node: str, hello: message.Hello) -> message.Refuse | None:
        if hello.protocol != message.PROTOCOL:
            reason = f"protocol {hello.protocol} is not spoken here, only {message.PROTOCOL}"
            return message.Refuse(code="protocol", reason=reason, retry_after=NODE_GONE_RETRY_SECONDS)
        if hello.node != node:
            reason = f"the certificate is {node}'s, the hello says {hello.node}"
            return message.Refuse(code="identity", reason=reason, retry_after=NODE_GONE_RETRY_SECONDS)
        if hello.fence > self.fence:
            reason = f"this edge has obeyed hub {hello.fence}, this is {self.fence}"
            return message.Refuse(code="stale_hub", reason=reason, retry_after=1.0)
        if "nodes" in self.placement.inputs_synced and node not in self.placement.nodes:
            return message.Refuse(code="node_unknown", reason=_unknown(node), retry_after=NODE_GONE_RETRY_SECONDS)
        if len(self.sessions) >= self.settings.link.nodes_max and node not in self.sessions:
            reason = f"{self.settings.link.nodes_max} nodes are connected already"
            return message.Refuse(code="busy", reason=reason, retry_after=BUSY_RETRY_SECONDS)
        return None

    def _refuse(self, session: NodeSession, code: Any, reason: str, retry_after: float) -> None:
        session.refuse(message.Refuse(code=code, reason=reason, retry_after=retry_after))
        self.counts.refused[code] = self.counts.refused.get(code, 0) + 1
        if self.sessions.get(session.node) is session:
            del self.sessions[session.node]
            self.edges.pop(session.node, None)
            self._unreported.add(session.node)
        self.woken.add(session)

    def closed(self, session: NodeSession, now: float) -> None:
        """The connection is gone.  Nothing of the session is kept; a newer one of the same node stays."""
        self.woken.discard(session)
        if self.sessions.get(session.node) is session:
            del self.sessions[session.node]
            self.edges.pop(session.node, None)
            self._unreported.add(session.node)

    def receive(self, session: NodeSession, header: message.FromEdge, body: bytes, now: float) -> None:
        """A frame that is not upstream.  Raises ``Malformed``: close the session with the reason."""
        if isinstance(header, message.Status):
            session.link.received(header, now)
            self._reported_by(session, body)
            return
        session.receive(header, body, now)
        self._drain(session, now)
        if session.has_frames:
            self.woken.add(session)

    def tick(self, session: NodeSession, now: float) -> bool:
        """False: the peer is silent, close the connection."""
        alive = session.tick(now)
        self._drain(session, now)
        if session.has_frames:
            self.woken.add(session)
        return alive

    def _reported_by(self, session: NodeSession, body: bytes) -> None:
        status = codec.decode_json(_status, body)
        before = self.edges.get(session.node)
        self.edges[session.node] = status
        if before is None or before.routes != status.routes or before.dead_letters != status.dead_letters:
            self._unreported.add(session.node)

    # ---- topics ----------------------------------------------------------------------------------

    def _grant(self, node: str) -> None:
        known = self.granted.get(node, frozenset())
        wider = known | self.placement.topics_of(node)
        if wider != known:
            self.granted[node] = wider
            self._unreported.add(node)

    def grants_known(self) -> str:
        """Why topics cannot be judged yet; empty when they can."""
        for name in ("nodes", "edgeroutes"):
            if name not in self.placement.inputs_synced:
                return f"{name} are not listed yet"
        return "" if EDGE_NODES in self.book.synced else "edgenodes are not listed yet"

    def granted_to(self, node: str) -> frozenset[str]:
        return self.granted.get(node, frozenset((rules.DEFAULT_TOPIC,)))

    def topics(self) -> frozenset[str]:
        """Every topic EdgeRoutes name; they are created before anything is published."""
        found = {rules.DEFAULT_TOPIC}
        for routes in self.placement.routes.values():
            found |= routes.topics
        return frozenset(found)

    # ---- records ---------------------------------------------------------------------------------

    def _drain(self, session: NodeSession, now: float) -> None:
        self.records.now = now
        outcomes, session.outcomes = session.outcomes, []
        for outcome in outcomes:
            match outcome:
                case Acked():
                    self.counts.acked(outcome.seconds)
                    self.records.acked(session, outcome, self._wanted_live(session.node, outcome.key))
                case Removed():
                    self.counts.removed += 1
                    self.records.removed(session, outcome)
                case Parked():
                    self.counts.parked(outcome.code)
                    self.records.parked(session, outcome, self._wanted_live(session.node, outcome.key))
                    self._happened(session.node, outcome, "Warning", "Parked", f"{outcome.code}: {outcome.reason}")
                    self._unreported.add(session.node)
                case Unparked():
                    self.records.unparked(session, outcome, self._wanted_live(session.node, outcome.key))
                    if outcome.why != "unwanted":
                        self._happened(session.node, outcome, "Normal", "Unparked", f"tried again: {outcome.why}")
                    self._unreported.add(session.node)
                case Retried():
                    self.counts.retried(outcome.code)
                case Compared():
                    self.counts.divergent_buckets += outcome.divergent_buckets
                    if all(name in self.book.synced for name in COLLECTIONS):
                        self.records.compared(session, self.wanted(session.node))
                    self._unreported.add(session.node)
                case _:
                    assert_never(outcome)
        if outcomes and not session.pending_since:
            self._unreported.add(session.node)

    def _happened(self, node: str, outcome: Parked | Unparked, type: happenings.Type, reason: str, text: str) -> None:
        regarding = self.records.regarding(node, outcome.path, outcome.uid)
        self.happenings.note(regarding, type, reason, text, self.records.now, self.records.text())

    def _wanted_live(self, node: str, key: str) -> LiveObject | None:
        wish = self.wish(node, key)
        return None if wish is None else wish.live

    def sweep(self, now: float) -> None:
        """Write down who lags; asked every second or so.  Costs nothing for nodes in sync."""
        self.records.now = now
        limit = self.settings.record.pending_seconds
        for session in self.sessions.values():
            for key, since in session.pending_since.items():
                if now - since < limit:
                    break  # oldest first
                if key not in session.noted:
                    live = self._wanted_live(session.node, key)
                    about = live.held if live is not None else session.held.get(key)
                    if about is not None:
                        session.noted[key] = (about.uid, about.path)
                        self.records.lagging(session, key, live, now - since)

    def reconcile(self, now: float) -> None:
        """The SyncController's slow pass: what events should have done already is done again where it was not."""
        self.records.now = now
        if "nodes" not in self.placement.inputs_synced:
            return
        self._collect_vanished()
        for node, session in self.sessions.items():
            if session.live:
                if session.audit(now):
                    self.woken.add(session)
                if all(name in self.book.synced for name in COLLECTIONS):
                    self.records.compared(session, self.wanted(node))
            self._unreported.add(node)

    def _collect_vanished(self) -> None:
        """Nodes that were deleted while no hub looked leave documents behind; EdgeNode goes with its Node by itself."""
        if "nodes" in self.placement.inputs_synced:
            for node in self.book.nodes():
                if node not in self.placement.nodes:
                    self.counts.records_collected += self.records.forget_node(node)

    def record_vanished(self, name: ledger.Name, node: str, now: float) -> None:
        """Somebody deleted a document by hand: it is written again if it still says something true."""
        self.records.now = now
        if not self.book.vanished(name, node):
            return
        session = self.sessions.get(node)
        if name[0] == EDGE_NODES:
            self._unreported.add(node)
        elif session is not None and session.live:
            self.records.compared(session, self.wanted(node))

    def record_observed(self, name: ledger.Name, node: str, observed: ledger.Observed, now: float) -> None:
        """A record as it stands; one that somebody else changed is set right at once."""
        if self.book.observe(name, node, observed) and name[0] in self.book.synced:
            self.records.now = now
            session = self.sessions.get(node)
            if session is not None and session.live:
                self.records.compared(session, self.wanted(node))
            elif "nodes" in self.placement.inputs_synced and node not in self.placement.nodes:
                self.book.want(ledger.Removal(name=name, node=node))

    def collection_synced(self, name: str, now: float) -> None:
        """The first list of our own documents is in: what was decided without them is decided again."""
        self.book.synced.add(name)
        self.records.now = now
        self._collect_vanished()
        if all(name in self.book.synced for name in COLLECTIONS):
            for node, session in self.sessions.items():
                if session.live:
                    self.records.compared(session, self.wanted(node))

    def report(self, now: float) -> None:
        """EdgeNode documents: at once on transitions, every few minutes otherwise."""
        self.records.now = now
        if EDGE_NODES not in self.book.synced or "nodes" not in self.placement.inputs_synced:
            return
        if self._first_report is None:
            self._first_report = now
        elif now - self._first_report >= RETURN_SECONDS and not self._returned:
            self._returned = True
            for name, observed in self.book.observed.items():
                if name[0] == EDGE_NODES and observed.status.get("connected"):
                    self._unreported.add(name[2])
        due = {n for n, at in self._reported.items() if now - at >= REPORT_SECONDS and n in self.sessions}
        waiting, self._unreported = self._unreported | due, set()
        for node in waiting:
            # A hub that has just started does not call nodes away that are about to come back.
            known = node in self.sessions or node in self._met or self._returned
            if known and node in self.placement.nodes:
                self._report_node(node, now, due=node in due)

    def _report_node(self, node: str, now: float, *, due: bool) -> None:
        account = self.account(node)
        name: ledger.Name = (EDGE_NODES, "", node)
        observed = self.book.observed.get(name)
        if observed is None and not account.connected and node not in self.granted:
            return  # never seen: nothing to tell
        document = edge_node.EdgeNodeDocument(
            name=name,
            node=node,
            uid=self.node_uids.get(node, ""),
            account=account,
            at=self.records.text(),
            fence=self.fence,
        )
        if observed is not None and not due:
            status, said = document.status(observed), observed.status
            if edge_node.decides_the_same(status, said):
                return
            session = self.sessions.get(node)
            under_way = session is not None and bool(session.pending_since)
            recently = now - self._reported.get(node, -COUNTS_SECONDS) < COUNTS_SECONDS
            if under_way and recently and edge_node.counts_only(status, said):
                self._unreported.add(node)
                return
        self._reported[node] = now
        self.book.want(document)
        if observed is None or observed.status.get("connected") != account.connected:
            regarding = happenings.Regarding(kind="EdgeNode", namespace="", name=node)
            reason = "Connected" if account.connected else "Away"
            self.happenings.note(regarding, "Normal", reason, f"node is {reason.lower()}", now, self.records.text())

    def account(self, node: str) -> edge_node.Account:
        """What is known of one node now."""
        session = self.sessions.get(node)
        observed = self.book.observed.get((EDGE_NODES, "", node))
        said = observed.status if observed is not None else {}
        granted = self.granted.get(node, frozenset())
        if session is None:
            return edge_node.Account(
                connected=False,
                hub=self.name,
                store_epoch=int(said.get("storeEpoch") or 0),
                agent=str(said.get("agentVersion", "")),
                last_contact=str(said.get("lastContactTime") or ""),
                wanted=int(said.get("objectsWanted", 0)),
                held=int(said.get("objectsHeld", 0)),
                parked=int(said.get("objectsParked", 0)),
                granted_topics=granted,
                edge=self.edges.get(node),
            )
        return edge_node.Account(
            connected=True,
            hub=self.name,
            store_epoch=session.hello.store_epoch,
            agent=session.hello.agent,
            last_contact=self.records.text(session.link.last_received),
            wanted=len(self.wanted(node)),
            held=len(session.held) if session.live else int(session.hello.held),
            parked=len(session.parked),
            granted_topics=granted,
            edge=self.edges.get(node),
        )

    def edge_node_observed(self, node: str, observed: ledger.Observed) -> None:
        """An EdgeNode document as it stands: topics granted before a restart count again."""
        self.book.observe((EDGE_NODES, "", node), node, observed)
        topics = observed.status.get("grantedTopics")
        if isinstance(topics, list):
            self.granted[node] = self.granted.get(node, frozenset()) | {t for t in topics if isinstance(t, str)}
        if node not in self.sessions and observed.status.get("connected") and "nodes" in self.placement.inputs_synced:
            self._unreported.add(node)


def kind_type(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _unknown(node: str) -> str:
    return f"there is no Node {node} with label node-role.kubernetes.io/edge"
