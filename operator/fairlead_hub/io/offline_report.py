"""The state of everything from the API objects alone, for the command line when no hub can be reached.

Only the hub knows what is in flight; rules, records and EdgeNodes provide the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead_hub import explain as explaining
from fairlead_hub import view
from fairlead_hub.cluster import api_json, content, deletion_blocked, paused_objects, sync_rule
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.delivery import deletion_guard
from fairlead_hub.io.cluster.api_error import ApiRefused, UnreadableAnswer
from fairlead_hub.io.cluster.kind_watch import discover
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.settings import NodeDelivery
from fairlead_hub.status import edge_node, node_routes, object_sync, sync_rule_status, to_table
from fairlead_wire.errors import Malformed
from fairlead_wire.objects import api_group
from fairlead_wire.objects.api_group import APPROVE_DELETIONS, EDGE_LABEL, PAUSED

WAITING = ("no_record", "pending", "deleting")
"""Codes after which something would be sent."""
NAMES_MAX = 500
"""Names searched for one that may have been meant."""
POD_KIND = content.ServedKind(group="", version="v1", kind="Pod", plural="pods", namespaced=True)


async def nodes(kube: Kube, selector: str = "") -> list[dict[str, Any]]:
    """One row for each edge Node that matches ``selector``, from its EdgeNode.

    Without a selector also one for each EdgeNode that remains of a deleted Node, for its certificates.

    Raises ``ApiRefused`` or ``ApiUnavailable``.
    """
    edges = await items(kube, "api/v1/nodes", labelSelector=",".join(filter(None, (EDGE_LABEL, selector))))
    edge_nodes = {item["metadata"]["name"]: item for item in await items(kube, f"{api_group.ROOT}/edgenodes")}
    rows = []
    remaining = {n: each for n, each in edge_nodes.items() if not selector and each.get("status", {}).get("identity")}
    for name, edge in (remaining | {each["metadata"]["name"]: each for each in edges}).items():
        account = edge_nodes.get(name, {})
        said = account.get("status", {})
        deleted = edge_node.deletion_text(name, said.get("identity")) if edge is account else ""
        rows.append(
            {
                "node": name,
                "connected": bool(said.get("connected")),
                "lastContact": said.get("lastContactTime") or "",
                "agent": said.get("agentVersion", ""),
                "wanted": said.get("objectsWanted", 0),
                "held": said.get("objectsHeld", 0),
                "pending": max(0, said.get("objectsWanted", 0) - said.get("objectsHeld", 0)),
                "parked": said.get("objectsParked", 0),
                "queued": said.get("queuedMessages", 0),
                "deadLetters": said.get("deadLetters", 0),
                "hub": said.get("hub", ""),
                "created": edge["metadata"].get("creationTimestamp") or "",
                "paused": paused_why(account),
                "identity": (said.get("identity") or {}).get("state") or "",
                "expires": (said.get("identity") or {}).get("expires") or "",
                "obeyedFence": said.get("obeyedFence"),
                "deletionGuard": said.get("deletionGuard"),
                "rules": _rules_message(said),
                "toTable": to_table.rows_in(said),
                **({"nodeDeleted": deleted} if deleted else {}),
            }
        )
    return sorted(rows, key=lambda row: str(row["node"]))


async def parked(kube: Kube) -> list[dict[str, Any]]:
    """Every parked record."""
    found = []
    for collection in ("objectsyncs", "clusterobjectsyncs"):
        for item in await items(kube, f"{api_group.ROOT}/{collection}"):
            record = object_sync.parse(item)
            if record is not None and record.state == "Parked":
                found.append(msgspec.to_builtins(record))
    return found


async def unreadable(kube: Kube) -> list[dict[str, Any]]:
    """Unreadable SyncRules and EdgeRoutes, and their effect meanwhile."""
    placement = Placement(ObjectCache(), NodeDelivery())
    for item in await items(kube, f"{api_group.ROOT}/syncrules"):
        try:
            sync_rule.rule(item)
        except ValueError as error:
            placement.rules.break_rule(sync_rule.unreadable(item, str(error)))
    for item in await items(kube, f"{api_group.ROOT}/edgeroutes"):
        try:
            sync_rule.routes(item)
        except ValueError as error:
            placement.rules.break_routes(item["metadata"]["name"], str(error))
    return view.unreadable(placement)


async def troubled(kube: Kube) -> list[dict[str, Any]]:
    """SyncRules and EdgeRoutes that select nothing, have an unlistable kind, fail at some node, or have warnings."""
    found = [
        sync_rule_status.trouble(kind, str(item["metadata"]["name"]), item.get("status") or {})
        for plural, kind in (("syncrules", "SyncRule"), ("edgeroutes", "EdgeRoutes"))
        for item in await items(kube, f"{api_group.ROOT}/{plural}")
    ]
    return [each for each in found if each is not None]


async def explain(kube: Kube, node: str, asked: str, namespace: str, name: str) -> dict[str, Any]:
    """Whether this object is wanted at the node, and what its record says."""
    placement, live, problem = await _placement(kube, node, asked, namespace, name)
    if problem and problem[0] == "no_node":
        return {"node": node, "code": problem[0], "answer": problem[1]}
    record = await _record(kube, node, asked, namespace, name, live)
    if problem and record is None:
        return {"node": node, "code": problem[0], "answer": problem[1]}
    found: dict[str, Any] = {"node": node}
    if live is not None:
        found["key"] = live.key
        found["wanted"] = {"uid": live.uid, "resourceVersion": live.version, "digest": live.digest}
    if record is not None:
        found["record"] = msgspec.to_builtins(record)
        if record.last_ack_time:
            found["lastDelivered"] = record.last_ack_time
    found["code"], found["answer"] = _verdict(placement, node, live, record)
    if found["code"] == "held" and live is not None and live.group_kind == content.EDGE_ROUTES:
        found["code"], found["answer"] = await _routes_held(kube, node, placement.rules.routes[name], found["answer"])
    if live is not None and live.paused and found["code"] in (*WAITING, "held"):
        where = f"{live.paused} (annotation {PAUSED} on the object)"
        if found["code"] == "held":
            found["answer"] += f"; the object is paused, its changes and its deletion wait: {where}"
        else:
            found["code"], found["answer"] = "paused", f"paused: {where}"
    if found["code"] in WAITING:
        found["code"], found["answer"] = await _may_send_changed(kube, node, found["code"], found["answer"])
    return found


def _rules_message(said: dict[str, Any]) -> str:
    """Which rules that concern the node are unreadable."""
    conditions = said.get("conditions") or ()
    return next((str(each.get("message", "")) for each in conditions if each.get("type") == "RulesReadable"), "")


def paused_why(account: dict[str, Any]) -> str:
    found: dict[str, str] = account.get("metadata", {}).get("annotations") or {}
    return paused_objects.reason(found)


async def _may_send_changed(kube: Kube, node: str, code: str, answer: str) -> tuple[str, str]:
    """Something is due: check pauses and the deletion guard."""
    try:
        account = await one(kube, f"{api_group.ROOT}/edgenodes/{node}")
    except ApiRefused:
        return code, answer
    if why := paused_why(account):
        return "paused", f"paused: {why} (annotation {PAUSED} on EdgeNode {node})"
    guard = account.get("status", {}).get("deletionGuard")
    if code == "deleting" and guard and not guard.get("approved"):
        id = guard["id"]
        due = f"deletion guard: {guard['count']} deletions are due"
        text = f"{due}: {deletion_guard.remedy(node)} ({APPROVE_DELETIONS}={id})"
        return "deletion_guard", text
    return code, answer


def _verdict(
    placement: Placement, node: str, live: LiveObject | None, record: object_sync.Record | None
) -> tuple[str, str]:
    if live is None and record is None:
        return "no_object", "there is no such object in the cluster, and no record of the node holding one"
    if live is not None and placement.desired(node, live) is None and record is None:
        if live.group_kind == content.EDGE_ROUTES:
            name = live.resource.name
            why = placement.rules.broken.get(f"edgeroutes/{name}")
            if why is not None:
                return "unreadable", f"EdgeRoutes {name} cannot be read: {why}; {deletion_blocked.ROUTES_CONSEQUENCE}"
            return "not_selected", f"EdgeRoutes {name} is not for this node: its nodeSelector does not select it"
        notes = "".join(f"; {note}" for note in _unreadable(placement))
        naming = (rule.name for rule, _ in placement.rules.entries(live.group_kind))
        return "not_selected", f"{explaining.not_selected(naming)}{notes}"
    if record is None and live is not None and live.problem is not None:
        return "undeliverable", f"no edge can be given it: {live.problem.code}: {live.problem.reason}"
    if record is None:
        return "no_record", "it is wanted, but the node never acknowledged it: is it connected, does the hub run?"
    if record.state == "Parked":
        again = f"; tried again at {record.next_retry_time}" if record.next_retry_time else ""
        return "parked", f"parked after {record.retries} retries: {record.reason}{again}"
    if live is None or placement.desired(node, live) is None:
        if record.reason == "Kept":
            return "kept", f"the node holds it and should not; it is kept: {record.message or record.reason}"
        return "deleting", "the node holds it and should not; its removal is due"
    if record.digest == live.digest:
        return "held", "in sync"
    return "pending", record.reason or "the node has not acknowledged the newest content"


async def _placement(
    kube: Kube, node: str, asked: str, namespace: str, name: str
) -> tuple[Placement, LiveObject | None, tuple[str, str] | None]:
    object_cache = ObjectCache()
    placement = Placement(object_cache, NodeDelivery())
    try:
        found = await one(kube, f"api/v1/nodes/{node}")
    except ApiRefused as error:
        if error.status != 404:
            raise
        edges = await items(kube, "api/v1/nodes", labelSelector=EDGE_LABEL)
        names = (each["metadata"]["name"] for each in edges if EDGE_LABEL in (each["metadata"].get("labels") or {}))
        meant = api_group.similar(node, names)
        text = f"there is no Node {node}{f'{meant} ' if meant else '; '}fairlead status lists the edge nodes"
        return placement, None, ("no_node", text)
    labels = found["metadata"].get("labels", {})
    if EDGE_LABEL not in labels:
        why = f"Node {node} lacks the label {EDGE_LABEL}; to make it an edge node: {api_group.label(node)}"
        return placement, None, ("no_node", why)
    placement.rules.set_node(node, labels)
    for item in await items(kube, f"{api_group.ROOT}/syncrules"):
        try:
            placement.rules.set_rule(sync_rule.rule(item))
        except ValueError as error:
            placement.rules.break_rule(sync_rule.unreadable(item, str(error)))
    for raw in await raw_items(kube, "api/v1/pods", fieldSelector=f"spec.nodeName={node}"):
        with contextlib.suppress(content.Unusable):
            object_cache.put(content.build(raw, POD_KIND))
    live, problem = await object_of(kube, placement, object_cache, asked, namespace, name)
    if problem is not None and placement.rules.broken:
        problem = (problem[0], "; ".join([problem[1], *_unreadable(placement)]))
    return placement, live, problem


def _unreadable(placement: Placement) -> list[str]:
    """The first unreadable rules: what they would select is unknown."""
    names = placement.rules.broken_names("syncrules")[: explaining.NOTES_MAX]
    return [f"SyncRule {name} cannot be read: {placement.rules.broken[f'syncrules/{name}']}" for name in names]


async def object_of(
    kube: Kube, placement: Placement, object_cache: ObjectCache, asked: str, namespace: str, name: str
) -> tuple[LiveObject | None, tuple[str, str] | None]:
    """The object as it is now, or why there is none: a code and a sentence."""
    kinds = {**placement.rules.kinds(), content.EDGE_ROUTES: (api_group.ROOT[5:],)}
    unlisted: list[tuple[str, str]] = []
    for group_kind, versions in kinds.items():
        kind = await _served(kube, placement, group_kind, versions)
        if kind is None:
            if deletion_blocked.is_called(f"{group_kind[1].lower()}s", asked.lower()):
                text = f"{group_kind[1]} cannot be listed: the API server serves none in {', '.join(versions)}"
                unlisted.append(("not_listed", text))
            continue
        if not kind.is_called(asked):
            continue
        base = kind.root.removesuffix(kind.plural)
        place = f"{base}namespaces/{namespace}/{kind.plural}" if kind.namespaced else kind.root
        try:
            raw = await kube.get(f"{place}/{name}")
        except ApiRefused as error:
            if error.status != 404:
                raise
            return None, ("no_object", await _nowhere(kube, kind, namespace, name))
        try:
            live = content.build(raw, kind)
        except content.Unusable as error:
            raise UnreadableAnswer(f"{place}/{name}: {error}") from None
        if kind.group_kind == content.EDGE_ROUTES and live.problem is None:
            try:
                placement.rules.set_routes(sync_rule.routes(content.unpacked(live)))
            except ValueError as error:
                placement.rules.break_routes(name, str(error))
        object_cache.put(live)
        return object_cache.get(live.key), None
    return None, unlisted[0] if unlisted else ("not_watched", explaining.not_named(asked, [kind for _, kind in kinds]))


async def _served(
    kube: Kube, placement: Placement, group_kind: content.GroupKind, versions: Sequence[str]
) -> content.ServedKind | None:
    """The kind at the first version that is served."""
    found: content.ServedKind | None = None
    answers = {}
    for version in versions:
        try:
            kind = await discover(kube, version, group_kind[1])
        except ApiRefused as error:
            answers[version] = str(error)
        else:
            answers[version] = ""
            found = found or kind
    placement.rules.set_served(group_kind, answers)
    return found


async def _nowhere(kube: Kube, kind: content.ServedKind, namespace: str, name: str) -> str:
    """Search the other namespaces, and similar names in this one."""
    others = [] if not kind.namespaced else await items(kube, kind.root, fieldSelector=f"metadata.name={name}")
    base = kind.root.removesuffix(kind.plural)
    place = f"{base}namespaces/{namespace}/{kind.plural}" if kind.namespaced else kind.root
    if not others:
        page = await one(kube, place, limit=str(NAMES_MAX))
        others = [item for item in page.get("items") or () if isinstance(item, dict)]
    found = [(item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in others]
    return explaining.nowhere(kind.kind, namespace if kind.namespaced else "", name, found)


async def _routes_held(kube: Kube, node: str, routes: sync_rule.Routes, held: str) -> tuple[str, str]:
    """The node's result for the EdgeRoutes object, from its EdgeNode."""
    try:
        status = (await one(kube, f"{api_group.ROOT}/edgenodes/{node}")).get("status") or {}
    except ApiRefused:
        status = {}
    row = node_routes.rows_in(status).get(routes.name)
    if row is None or (row.get("uid"), row.get("observedGeneration")) != (routes.uid, routes.generation):
        return "held", f"{held}; the node has not reported yet which of its routes it runs"
    errors = [(each.get("route", ""), each.get("message", "")) for each in row.get("errors") or ()]
    return explaining.routes_held(row.get("acceptedRoutes") or (), errors)


async def _record(
    kube: Kube, node: str, asked: str, namespace: str, name: str, live: LiveObject | None
) -> object_sync.Record | None:
    collection = (
        f"{api_group.ROOT}/namespaces/{namespace}/objectsyncs" if namespace else f"{api_group.ROOT}/clusterobjectsyncs"
    )
    if live is not None and not live.resource.namespace:
        collection = f"{api_group.ROOT}/clusterobjectsyncs"
    for item in await items(kube, collection, fieldSelector=f"spec.nodeName={node}"):
        record = object_sync.parse(item)
        if record is None or record.object_name != name:
            continue
        if await _is_called(kube, record, asked) if live is None else record.uid == live.uid:
            return record
    return None


async def _is_called(kube: Kube, record: object_sync.Record, asked: str) -> bool:
    try:
        return (await discover(kube, record.api_version, record.kind)).is_called(asked)
    except ApiRefused:  # its definition was deleted
        return asked.lower() in (record.kind.lower(), f"{record.kind.lower()}s")


async def one(kube: Kube, path: str, **params: str) -> dict[str, Any]:
    try:
        return api_json.document(await kube.get(path, **params))[0]
    except Malformed as error:
        raise UnreadableAnswer(f"the answer for {path} cannot be read: {error}") from None


async def raw_items(kube: Kube, path: str, **params: str) -> list[msgspec.Raw]:
    found: list[msgspec.Raw] = []
    query = {**params, "limit": "500"}
    while True:
        try:
            page = api_json.page(await kube.get(path, **query))
        except Malformed as error:
            raise UnreadableAnswer(f"the answer for {path} cannot be read: {error}") from None
        found.extend(page.items)
        if not page.next:
            return found
        query["continue"] = page.next


async def items(kube: Kube, path: str, **params: str) -> list[dict[str, Any]]:
    """Skips unreadable items."""
    found = []
    for raw in await raw_items(kube, path, **params):
        try:
            found.append(api_json.document(raw)[0])
        except Malformed:
            continue
    return found
