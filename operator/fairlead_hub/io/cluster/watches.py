"""The watches of the hub: a fixed set for its decisions, and one for each kind a rule names.

Nodes, SyncRules, EdgeRoutes, EdgeNodes, ObjectSyncs ─┐
kinds named by rules (found by discovery) ────────────┴─▶ Hub
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from fairlead_hub.cluster import api_json, content, sync_rule
from fairlead_hub.cluster.content import EDGE_ROUTES, GroupKind, ServedKind
from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.hub import Hub
from fairlead_hub.io.change_traces import ChangeTraces
from fairlead_hub.io.cluster.kind_watch import KindWatch
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.cluster.reflector import Reflector, ReflectorListener
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.status import status_cache
from fairlead_wire.io import logs
from fairlead_wire.objects import api_group, resource
from fairlead_wire.objects.api_group import EDGE_LABEL

_log = logs.get("hub.watches")

EDGE_ROUTES_KIND = ServedKind(
    group=api_group.GROUP,
    version=api_group.VERSION,
    kind="EdgeRoutes",
    plural="edgeroutes",
    namespaced=False,
    short_names=frozenset(("edgeroute", "eroutes")),
)

INPUTS = (
    "api/v1/nodes",
    f"{api_group.ROOT}/syncrules",
    EDGE_ROUTES_KIND.root,
    *(f"{api_group.ROOT}/{collection}" for collection in ("objectsyncs", "clusterobjectsyncs", EDGE_NODES)),
)
"""What the hub decides by: always watched."""

Clock = Callable[[], float]


class _KindSink:
    """A kind named by rules."""

    def __init__(
        self, hub: Hub, kind: ServedKind, clock: Clock, counts: IoCounts, traces: ChangeTraces | None = None
    ) -> None:
        self._hub, self._kind, self._clock, self._counts, self._traces = hub, kind, clock, counts, traces

    def on_object(self, raw: msgspec.Raw) -> str:
        try:
            live = content.build(raw, self._kind)
        except content.Unusable as error:
            self._counts.unusable(error.code)
            _log.warning("object_unusable", kind=self._kind.kind, code=error.code, reason=str(error))
            # What was known of it stays valid: that it cannot be read does not mean that it is gone.
            known = self._hub.cluster.get_object(error.key)
            return "" if known is None else f"{known.key}\n{known.uid}"
        if live.problem is not None:
            self._counts.unusable(live.problem.code)
            code, reason = live.problem.code, live.problem.reason
            _log.warning("object_unusable", kind=self._kind.kind, object=live.path, code=code, reason=reason)
        if self._kind == EDGE_ROUTES_KIND:
            _observe(self._hub, "edgeroutes", raw)
        if self._traces is not None:
            self._traces.observed(live, self._hub.cluster.get_object(live.key))
        self._hub.cluster.put_object(live, self._clock())
        return f"{live.key}\n{live.uid}"

    def on_gone(self, raw: msgspec.Raw) -> None:
        found = api_json.header(raw)
        key = _key(self._kind, found)
        self._hub.cluster.remove_object(key, found.uid, self._clock())

    def on_listed(self, identities: set[str], version: str) -> None:
        named = dict(identity.rsplit("\n", 1) for identity in identities if identity)
        self._hub.cluster.relist(self._kind.group_kind, named, self._clock())
        self._hub.cluster.kind_synced(self._kind.group_kind)
        _log.info("kind_listed", kind=self._kind.kind, objects=len(named))

    def on_lost(self, restored: bool) -> None:
        self._hub.cluster.kind_unsynced(self._kind.group_kind)
        if restored and self._kind == EDGE_ROUTES_KIND:
            self._hub.documents.restored("edgeroutes")

    def on_unlistable(self, reason: str, *, served: bool) -> None:
        self._hub.cluster.kind_frozen(self._kind.group_kind, reason)


class _NodeSink:
    """core/v1 Nodes with the edge label."""

    def __init__(self, hub: Hub, clock: Clock, counts: IoCounts) -> None:
        self._hub, self._clock, self._counts = hub, clock, counts

    def on_object(self, raw: msgspec.Raw) -> str:
        found = api_json.header(raw)
        labels = found.labels or {}
        if found.problem:
            _unreadable(self._counts, "nodes", found.name, found.problem)
        elif EDGE_LABEL in labels:
            self._hub.cluster.set_node(found.name, found.uid, labels, self._clock())
        elif self._hub.cluster.has_node(found.name):
            self._hub.cluster.drop_node(found.name, self._clock())
        return found.name

    def on_gone(self, raw: msgspec.Raw) -> None:
        self._hub.cluster.drop_node(api_json.header(raw).name, self._clock())

    def on_listed(self, identities: set[str], version: str) -> None:
        self._hub.cluster.nodes_named(identities, self._clock())
        self._hub.reconcile(self._clock())

    def on_lost(self, restored: bool) -> None:
        """The next list tells; until then what we know stays."""

    def on_unlistable(self, reason: str, *, served: bool) -> None:
        _unlistable("nodes", reason, served)


class _RuleSink:
    """SyncRules."""

    def __init__(self, hub: Hub, clock: Clock, changed: Callable[[], None]) -> None:
        self._hub, self._clock, self._changed = hub, clock, changed

    def on_object(self, raw: msgspec.Raw) -> str:
        body, problem = api_json.document(raw)
        name = _observe(self._hub, "syncrules", raw)
        try:
            if problem:
                raise ValueError(problem)
            rule = sync_rule.rule(body)
        except ValueError as error:
            self._hub.cluster.break_rule(sync_rule.unreadable(body, str(error)), self._clock())
            self._changed()
            remedy = "mend the field; kubectl get syncrule shows what it does meanwhile"
            _log.warning("rule_broken", rule=name, reason=str(error), remedy=remedy)
        else:
            if self._hub.cluster.set_rule(rule, self._clock()):
                self._changed()
        return name

    def on_gone(self, raw: msgspec.Raw) -> None:
        name = api_json.header(raw).name
        self._hub.cluster.drop_rule(name)
        self._changed()

    def on_listed(self, identities: set[str], version: str) -> None:
        self._hub.cluster.rules_named(identities)
        self._changed()

    def on_lost(self, restored: bool) -> None:
        """The next list tells; until then the rules we know stay."""
        if restored:
            self._hub.documents.restored("syncrules")

    def on_unlistable(self, reason: str, *, served: bool) -> None:
        _unlistable("syncrules", reason, served)


class _OwnSink:
    """Documents written by the hub: records and EdgeNodes."""

    def __init__(self, hub: Hub, collection: str, clock: Clock, counts: IoCounts, listed: Callable[[], None]) -> None:
        """``listed``: called when more kinds to watch may be known."""
        self._hub, self._collection, self._clock = hub, collection, clock
        self._counts, self._listed = counts, listed

    def on_object(self, raw: msgspec.Raw) -> str:
        header = api_json.header(raw)
        name: status_cache.Name = (self._collection, header.namespace, header.name)
        if self._collection != EDGE_NODES and self._hub.documents.is_echo(
            name, header.version, lambda: _observed(api_json.own(raw))
        ):
            return f"{name[1]}/{name[2]}"  # every write of ours comes back once: the rest need not be parsed
        found = api_json.own(raw)
        if found.header.problem:
            _unreadable(self._counts, self._collection, header.name, found.header.problem)
        observed = _observed(found)
        if self._collection == EDGE_NODES:
            annotations = found.header.annotations or {}
            revoked = self._hub.documents.edge_node_observed(header.name, observed, annotations, self._clock())
            if revoked is not None:
                _log.warning("identity_revoked", node=header.name, before=revoked.before, reason=revoked.reason)
        else:
            self._hub.documents.observed(name, str(found.spec.get("nodeName", "")), observed)
        return f"{name[1]}/{name[2]}"

    def on_gone(self, raw: msgspec.Raw) -> None:
        found = api_json.own(raw)
        name: status_cache.Name = (self._collection, found.header.namespace, found.header.name)
        self._vanished(name, found.spec, found.header.version)

    def on_listed(self, identities: set[str], version: str) -> None:
        self._hub.documents.named(self._collection, identities, version, self._clock())
        self._hub.documents.listed(self._collection, self._clock())
        self._listed()

    def _vanished(self, name: status_cache.Name, spec: dict[str, Any], version: str) -> None:
        if self._collection == EDGE_NODES:
            self._hub.documents.edge_node_vanished(name[2], self._clock(), version)
        else:
            self._hub.documents.vanished(name, str(spec.get("nodeName", "")), version)

    def on_lost(self, restored: bool) -> None:
        """The next list tells."""
        if restored:
            self._hub.documents.restored(self._collection)

    def on_unlistable(self, reason: str, *, served: bool) -> None:
        _unlistable(self._collection, reason, served)


class Reflectors:
    """Starts and stops reflectors."""

    def __init__(
        self,
        kube: Kube,
        hub: Hub,
        *,
        clock: Clock,
        freshness: WatchHealth | None = None,
        counts: IoCounts | None = None,
        traces: ChangeTraces | None = None,
    ) -> None:
        """``freshness`` is told which collections are not being followed at the moment."""
        self._traces = traces
        self.counts = counts if counts is not None else IoCounts()
        self._kube, self._hub, self._clock = kube, hub, clock
        self._freshness = freshness if freshness is not None else WatchHealth(INPUTS)
        self._running: set[Reflector] = set()
        self._kinds: dict[GroupKind, tuple[KindWatch, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        hub = self._hub
        hub.cluster.know_kind(EDGE_ROUTES_KIND)
        fixed: list[tuple[str, Any]] = [
            (INPUTS[0], _NodeSink(hub, self._clock, self.counts)),
            (f"{api_group.ROOT}/syncrules", _RuleSink(hub, self._clock, self._changed.set)),
            (EDGE_ROUTES_KIND.root, _KindSink(hub, EDGE_ROUTES_KIND, self._clock, self.counts, self._traces)),
            *(
                (
                    f"{api_group.ROOT}/{collection}",
                    _OwnSink(hub, collection, self._clock, self.counts, self._changed.set),
                )
                for collection in ("objectsyncs", "clusterobjectsyncs", EDGE_NODES)
            ),
        ]
        async with asyncio.TaskGroup() as group:
            for root, sink in fixed:
                group.create_task(self._reflect(root, sink), name=f"watch {root}")
            while True:
                await self._changed.wait()
                self._changed.clear()
                self._follow(group.create_task)

    def _follow(self, start: Callable[..., asyncio.Task[None]]) -> None:
        wanted = self._hub.cluster.wanted_kinds()
        wanted.pop(EDGE_ROUTES, None)  # watched regardless of rules
        for kind, (_, task) in list(self._kinds.items()):
            if kind not in wanted:
                task.cancel()
                del self._kinds[kind]
                self._hub.cluster.kind_dropped(kind)
        for kind, versions in wanted.items():
            if kind not in self._kinds:
                watch = KindWatch(self._kube, self._hub, kind, self._watched, clock=self._clock)
                self._kinds[kind] = (watch, start(watch.run(), name=f"watch {kind[1]}"))
            self._kinds[kind][0].want(versions)

    async def _watched(self, kind: ServedKind) -> None:
        await self._reflect(kind.root, _KindSink(self._hub, kind, self._clock, self.counts, self._traces))

    async def _reflect(self, root: str, sink: ReflectorListener) -> None:
        """Run until cancelled."""

        def restarted(reason: str) -> None:
            self.counts.restarted(reason)

        def unreadable() -> None:
            self.counts.unusable("no_identity")

        def missed() -> None:
            for each in self._running - {one}:
                each.suspect()

        one = Reflector(
            self._kube,
            root,
            sink,
            restarted=restarted,
            unreadable=unreadable,
            missed=missed,
            freshness=self._freshness,
        )
        self._running.add(one)
        try:
            await one.run()
        finally:
            self._running.discard(one)


def _observed(found: api_json.OwnObject) -> status_cache.Observed:
    header = found.header
    head = {"spec": found.spec}
    return status_cache.Observed(
        version=header.version, generation=header.generation, status=found.status, head=head, uid=header.uid
    )


def _observe(hub: Hub, collection: str, raw: msgspec.Raw) -> str:
    """Record version and status of a document whose status we write; returns its name."""
    found = api_json.own(raw)
    header = found.header
    observed = status_cache.Observed(version=header.version, generation=header.generation, status=found.status, head={})
    hub.documents.rule_observed(collection, header.name, observed)
    return header.name


def _unlistable(collection: str, reason: str, served: bool) -> None:
    if not served and collection != "nodes":
        _log.error("crds_missing", collection=collection, reason=reason, remedy="kubectl apply -f crds")
    else:
        _log.error("input_unlistable", collection=collection, reason=reason)


def _unreadable(counts: IoCounts, collection: str, name: str, problem: str) -> None:
    counts.unusable("malformed_metadata")
    _log.warning("object_unreadable", collection=collection, name=name, reason=problem)


def _key(kind: ServedKind, found: api_json.ObjectHeader) -> str:
    namespace = found.namespace if kind.namespaced else ""
    return resource.Resource(
        group=kind.group, version=kind.version, plural=kind.plural, namespace=namespace, name=found.name
    ).key
