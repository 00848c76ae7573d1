"""Finds what a test module leaves behind in the shared cluster: one query for everything in etcd.

    before = stored(cluster) ── the module's tests ── left(before, stored(cluster)) ──▶ must be empty

A list from a shared cluster would contain what other modules left there, which depends on the tests that the same
worker ran before.  So nothing may stay except what ``STAYS`` names and what a namespace in deletion contains.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

import msgspec

FIRST, BEHIND = b"/registry/", b"/registry0"
"""All keys of the API server; the second is the first one that is none of them."""
SHOWN_MAX = 20
STAYS = {
    r"apiextensions\.k8s\.io/customresourcedefinitions/": "made anew for each module they would cost it 2 s",
    r"apiregistration\.k8s\.io/apiservices/": "one a definition's group, made by the API server",
    r"events/": "the API server ends them after an hour; controllers write some behind a module's back",
    r"(masterleases|ranges|peerserverleases)/": "the API server's own account of itself",
    r"(configmaps|serviceaccounts)/[^/]+/(kube-root-ca\.crt|default)$": "made by controllers in each namespace",
    r"namespaces/kube-|[^ ]*/kube-(system|public|node-lease)/": "Kubernetes' own, made while it starts",
    r"(flowschemas|prioritylevelconfigurations|priorityclasses)/": "made by the API server",
    r"(endpointslices|services/endpoints|services/specs)/default/kubernetes$|ipaddresses/": "how it shows itself",
    r"namespaces/(act-test|cli-test|fairlead)$": "empty; ending one takes 5 s, and the next module makes it again",
}
"""Kinds (as etcd's keys name them) that may be left behind, and why that disturbs no other module."""
_stays = re.compile(f"(?:{'|'.join(STAYS)})")


class Stored(msgspec.Struct, frozen=True):
    """What the API server has in etcd."""

    keys: frozenset[str]
    """Such as ``minions/edge-1`` (a Node) or ``fairlead.dev/objectsyncs/shop/a``."""
    ending: frozenset[str]
    """Namespaces that were deleted; what is in them goes with them."""


class _Key(msgspec.Struct):
    key: bytes


class _Range(msgspec.Struct):
    kvs: list[_Key] = []


def question() -> bytes:
    """The body for etcd's ``/v3/kv/range``: all keys and no values."""
    asked = {"key": base64.b64encode(FIRST).decode(), "range_end": base64.b64encode(BEHIND).decode(), "keys_only": True}
    return msgspec.json.encode(asked)


def answer(body: bytes, namespaces: Mapping[str, str]) -> Stored:
    """``body`` from etcd; ``namespaces``: the phase of each."""
    keys = (each.key.decode().removeprefix(FIRST.decode()) for each in msgspec.json.decode(body, type=_Range).kvs)
    return Stored(frozenset(keys), frozenset(name for name, phase in namespaces.items() if phase == "Terminating"))


def left(before: Stored, after: Stored) -> list[str]:
    """New keys that may not stay, sorted."""

    def goes(key: str) -> bool:
        return not after.ending.isdisjoint(key.split("/"))

    return sorted(key for key in after.keys - before.keys if not _stays.match(key) and not goes(key))


def complaint(module: str, keys: list[str]) -> str:
    """The text of the failure; empty if there is none."""
    if not keys:
        return ""
    more = f" and {len(keys) - SHOWN_MAX} more" if len(keys) > SHOWN_MAX else ""
    return (
        f"{module} left in the cluster that other modules share: {', '.join(keys[:SHOWN_MAX])}{more}; "
        "delete it in the fixture or the test that made it (tests/support/kube/leftovers.py)"
    )
