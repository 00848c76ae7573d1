"""Where everything stands, from the API objects alone: for the command line when no hub can be asked.

What is in flight at this moment only the hub knows; rules, records and EdgeNodes tell the rest.
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from fairlead_hub import api_json, content, objectsync, restraints, rules
from fairlead_hub.catalog import Catalog
from fairlead_hub.content import LiveObject
from fairlead_hub.io.kube import Kube, Refused, Unreadable
from fairlead_hub.io.watches import EDGE_LABEL, OURS, discover
from fairlead_hub.placement import Placement
from fairlead_hub.settings import Delivery
from fairlead_wire.errors import Malformed

WAITING = ("no_record", "pending", "deleting")
"""Codes of verdicts after which something would be sent."""
POD_KIND = content.Kind(group="", version="v1", kind="Pod", plural="pods", namespaced=True)


async def nodes(kube: Kube) -> list[dict[str, Any]]:
    """One row for each edge Node, as its EdgeNode and its records tell.  Raises ``Refused`` or ``Unavailable``."""
    edges = await _items(kube, "api/v1/nodes", labelSelector=EDGE_LABEL)
    accounts = {item["metadata"]["name"]: item for item in await _items(kube, f"{OURS}/edgenodes")}
    rows = []
    for edge in edges:
        name = edge["metadata"]["name"]
        account = accounts.get(name, {})
        said = account.get("status", {})
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
                "hold": _hold(account),
                "brake": said.get("brake"),
            }
        )
    return sorted(rows, key=lambda row: str(row["node"]))


async def parked(kube: Kube) -> list[dict[str, Any]]:
    """Every parked record."""
    found = []
    for collection in ("objectsyncs", "clusterobjectsyncs"):
        for item in await _items(kube, f"{OURS}/{collection}"):
            record = objectsync.parse(item)
            if record is not None and record.state == "Parked":
                found.append(msgspec.to_builtins(record))
    return found


async def explain(kube: Kube, node: str, asked: str, namespace: str, name: str) -> dict[str, Any]:
    """Is this object wanted at the node, and what does its record say?"""
    placement, live, problem = await _placement(kube, node, asked, namespace, name)
    if problem:
        return {"node": node, "code": problem[0], "answer": problem[1]}
    record = await _record(kube, node, asked, namespace, name, live)
    found: dict[str, Any] = {"node": node}
    if live is not None:
        found["key"] = live.key
        found["wanted"] = {"uid": live.uid, "resourceVersion": live.version, "digest": live.digest}
    if record is not None:
        found["record"] = msgspec.to_builtins(record)
    found["code"], found["answer"] = _verdict(placement, node, live, record)
    if found["code"] in WAITING:
        found["code"], found["answer"] = await _restrained(kube, node, found["code"], found["answer"])
    return found


def _hold(account: dict[str, Any]) -> str:
    return restraints.hold_of(account.get("metadata", {}).get("annotations") or {})


async def _restrained(kube: Kube, node: str, code: str, answer: str) -> tuple[str, str]:
    """Something is to be done: unless people said not to, or the brake did."""
    try:
        account = await _one(kube, f"{OURS}/edgenodes/{node}")
    except Refused:
        return code, answer
    if hold := _hold(account):
        return "held_back", f"held back: {hold} (annotation {restraints.HOLD} on EdgeNode {node})"
    brake = account.get("status", {}).get("brake")
    if code == "deleting" and brake and not brake.get("released"):
        id = brake["id"]
        return "braked", f"braked: {brake['count']} removals are due; released by {restraints.RELEASE_BRAKE}={id}"
    return code, answer


def _verdict(
    placement: Placement, node: str, live: LiveObject | None, record: objectsync.Record | None
) -> tuple[str, str]:
    if live is None and record is None:
        return "no_object", "there is no such object in the cluster, and no record of the node holding one"
    if live is not None and placement.wish(node, live) is None and record is None:
        return "not_selected", "no SyncRule selects this object for this node"
    if record is None and live is not None and live.problem is not None:
        return "undeliverable", f"no edge can be given it: {live.problem.code}: {live.problem.reason}"
    if record is None:
        return "no_record", "it is wanted, but the node never acknowledged it: is it connected, does the hub run?"
    if record.state == "Parked":
        again = f"; tried again at {record.next_retry_time}" if record.next_retry_time else ""
        return "parked", f"parked after {record.retries} retries: {record.reason}{again}"
    if live is None or placement.wish(node, live) is None:
        return "deleting", "the node holds it and should not; its removal is due"
    if record.digest == live.digest:
        return "held", f"held since {record.last_ack_time or 'an earlier session'}"
    return "pending", record.reason or "the node has not acknowledged the newest content"


async def _placement(
    kube: Kube, node: str, asked: str, namespace: str, name: str
) -> tuple[Placement, LiveObject | None, tuple[str, str] | None]:
    catalog = Catalog()
    placement = Placement(catalog, Delivery())
    try:
        found = await _one(kube, f"api/v1/nodes/{node}")
    except Refused as error:
        if error.status != 404:
            raise
        return placement, None, ("no_node", f"there is no edge Node {node}")
    labels = found["metadata"].get("labels", {})
    if EDGE_LABEL not in labels:
        return placement, None, ("no_node", f"Node {node} carries no label {EDGE_LABEL}")
    placement.set_node(node, labels)
    for item in await _items(kube, f"{OURS}/syncrules"):
        try:
            placement.set_rule(rules.rule(item))
        except ValueError as error:
            return placement, None, ("rule_broken", f"SyncRule {item['metadata']['name']}: {error}")
    for raw in await _raw_items(kube, "api/v1/pods", fieldSelector=f"spec.nodeName={node}"):
        with contextlib.suppress(content.Unusable):
            catalog.put(content.build(raw, POD_KIND))
    return placement, await _object(kube, placement, catalog, asked, namespace, name), None


async def _object(
    kube: Kube, placement: Placement, catalog: Catalog, asked: str, namespace: str, name: str
) -> LiveObject | None:
    for (_, kind_name), api_version in {**placement.kinds(), ("fairlead.dev", "EdgeRoutes"): OURS[5:]}.items():
        try:
            kind = await discover(kube, api_version, kind_name)
        except Refused:
            continue
        if not kind.is_called(asked):
            continue
        base = kind.root.removesuffix(kind.plural)
        place = f"{base}namespaces/{namespace}/{kind.plural}" if kind.namespaced else kind.root
        try:
            raw = await kube.get(f"{place}/{name}")
        except Refused as error:
            if error.status != 404:
                raise
            return None
        try:
            live = content.build(raw, kind)
        except content.Unusable as error:
            raise Unreadable(f"{place}/{name}: {error}") from None
        if kind.kind == "EdgeRoutes" and live.problem is None:
            placement.routes[name] = rules.routes(content.unpacked(live))
        catalog.put(live)
        return catalog.get(live.key)
    return None


async def _record(
    kube: Kube, node: str, asked: str, namespace: str, name: str, live: LiveObject | None
) -> objectsync.Record | None:
    collection = f"{OURS}/namespaces/{namespace}/objectsyncs" if namespace else f"{OURS}/clusterobjectsyncs"
    if live is not None and not live.resource.namespace:
        collection = f"{OURS}/clusterobjectsyncs"
    for item in await _items(kube, collection, fieldSelector=f"spec.nodeName={node}"):
        record = objectsync.parse(item)
        if record is None or record.object_name != name:
            continue
        if await _is_called(kube, record, asked) if live is None else record.uid == live.uid:
            return record
    return None


async def _is_called(kube: Kube, record: objectsync.Record, asked: str) -> bool:
    try:
        return (await discover(kube, record.api_version, record.kind)).is_called(asked)
    except Refused:  # its definition is gone
        return asked.lower() in (record.kind.lower(), f"{record.kind.lower()}s")


async def _one(kube: Kube, path: str) -> dict[str, Any]:
    try:
        return api_json.document(await kube.get(path))[0]
    except Malformed as error:
        raise Unreadable(f"the answer for {path} cannot be read: {error}") from None


async def _raw_items(kube: Kube, path: str, **params: str) -> list[msgspec.Raw]:
    found: list[msgspec.Raw] = []
    query = {**params, "limit": "500"}
    while True:
        try:
            page = api_json.page(await kube.get(path, **query))
        except Malformed as error:
            raise Unreadable(f"the answer for {path} cannot be read: {error}") from None
        found.extend(page.items)
        if not page.next:
            return found
        query["continue"] = page.next


async def _items(kube: Kube, path: str, **params: str) -> list[dict[str, Any]]:
    """Without those that cannot be read."""
    found = []
    for raw in await _raw_items(kube, path, **params):
        try:
            found.append(api_json.document(raw)[0])
        except Malformed:
            continue
    return found
