"""Which version of a kind is followed, on a real API server; and what becomes of one that never answers."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.support.edges.upstream import until
from tests.support.hubs.hub import config_map, edge_node, sync_rule
from tests.support.hubs.watching import apply, own, watching
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

from fairlead_hub.io.cluster import kind_watch
from fairlead_hub.io.cluster.api_error import ApiRefused
from fairlead_hub.io.cluster.kind_watch import discover
from fairlead_hub.io.cluster.kube import Kube

CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
KIND = ("", "ConfigMap")
GADGET = ("example.com", "Gadget")


class Discovery:
    """The group of the core, as far as a typing error may mean something of it."""

    async def get(self, path: str) -> bytes:
        assert path == "api/v1"
        listable = {"namespaced": True, "verbs": ["get", "list"]}
        return json.dumps({"resources": [
            {**listable, "name": "configmaps", "singularName": "configmap", "kind": "ConfigMap", "shortNames": ["cm"]},
            {**listable, "name": "secrets", "singularName": "secret", "kind": "Secret"},
            {**listable, "name": "bindings", "kind": "Binding", "verbs": ["create"]},
        ]}).encode()  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("ConfigMaps", "; did you mean ConfigMap?"),
        ("configmap", "; did you mean ConfigMap?"),
        ("cm", "; did you mean ConfigMap?"),
        ("Secert", "; did you mean Secret?"),
        ("Bindings", ": check apiVersion (kubectl api-resources shows it)"),
        ("Gadget", ": check apiVersion (kubectl api-resources shows it)"),
    ],
)
async def test_a_kind_with_a_typing_error(kind: str, hint: str) -> None:
    """What was probably meant is named, if it can be listed."""
    with pytest.raises(ApiRefused) as refused:
        await discover(Discovery(), "v1", kind)  # type: ignore[arg-type]
    assert str(refused.value) == f"the API server has no listable kind {kind} in v1{hint}"


async def test_a_kind_that_is_not_served_is_frozen_until_it_is_there(
    kube: Cluster, client: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule may come before the definition of what it names."""
    monkeypatch.setattr(kind_watch, "DISCOVERY_RETRY_SECONDS", 0.05)
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}],
        },
    }  # fmt: skip
    await apply(kube, edge_node("edge-1"), sync_rule("gadgets", {"apiVersion": "example.com/v1", "kind": "Gadget"}))
    async with watching(client) as hub:
        await until(lambda: hub.placement.rules.is_unserved(GADGET))
        assert "404" in hub.placement.rules.unserved["example.com/v1", "Gadget"]
        await until(lambda: hub.placement.listed.not_synced("edge-1") == "")
        await apply(kube, crd)
        try:
            await until(lambda: GADGET in hub.placement.listed.kinds, seconds=120)
            await until(lambda: hub.placement.listed.frozen == {} == hub.placement.rules.unserved)
        finally:
            await asyncio.to_thread(kube.kubectl, "delete", "crd", "gadgets.example.com")


async def test_a_version_that_is_not_served_does_not_disturb_the_one_that_is(
    kube: Cluster, client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes first in the alphabet; the kind stays listed while it comes and goes, and is followed on."""
    monkeypatch.setattr(kind_watch, "DISCOVERY_RETRY_SECONDS", 0.05)
    good = sync_rule("good", {**CONFIG_MAPS, "namespaces": [namespace]})
    await apply(kube, edge_node("edge-1"), config_map("a", namespace), good)
    async with watching(client) as hub:
        await until(lambda: own(hub, namespace) == {"a"})
        await apply(kube, sync_rule("aaa", {"apiVersion": "v2", "kind": "ConfigMap"}))
        await until(lambda: ("v2", "ConfigMap") in hub.placement.rules.unserved)
        assert KIND in hub.placement.listed.kinds and hub.placement.listed.not_synced("edge-1") == ""
        await apply(kube, config_map("b", namespace))
        await until(lambda: own(hub, namespace) == {"a", "b"})
        await client.request("DELETE", "apis/fairlead.dev/v1alpha1/syncrules/good")
        await until(lambda: KIND not in hub.placement.listed.kinds)
        assert own(hub, namespace) == set() and hub.placement.listed.not_synced("edge-1") == ""
        await apply(kube, good)
        await until(lambda: own(hub, namespace) == {"a", "b"})


async def test_a_kind_that_is_not_answered_for_keeps_no_node_waiting(
    kube: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its extension server is away: after a while what is there of it stays, all else goes on, until it answers."""
    monkeypatch.setattr(kind_watch, "DISCOVERY_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(kind_watch, "UNLISTED_SECONDS", 0.2)
    await apply(kube, edge_node("edge-1"), config_map("a", namespace), sync_rule("r", CONFIG_MAPS))
    async with ApiFront(kube) as front:
        front.answer("GET", "api/v1/configmaps", status=503, headers={"Retry-After": "0"}, times=None)
        async with watching(front.client()) as hub:
            await until(lambda: "has not listed it" in hub.placement.listed.frozen.get(KIND, ""))
            await until(lambda: hub.desired_state.not_synced("edge-1") == "")
            assert "has not listed it" in hub.desired_state.deletion_blocked(
                "edge-1", "api/v1/namespaces/shop/configmaps/a"
            )
            front.pass_everything()
            await until(lambda: own(hub, namespace) == {"a"}, seconds=120)
            await until(lambda: hub.placement.listed.frozen == {})


async def test_discovery_tells_how_a_kind_is_served(kube: Cluster, client: Kube) -> None:
    """Plural, scope, short names; subresources are no kinds of their own."""
    found = await discover(client, "v1", "ConfigMap")
    assert (found.plural, found.namespaced, found.root) == ("configmaps", True, "api/v1/configmaps")
    assert "cm" in found.short_names
    assert (await discover(client, "apps/v1", "Deployment")).group == "apps"
    assert not (await discover(client, "v1", "Node")).namespaced


@pytest.mark.parametrize(("version", "kind"), [("v1", "Nothing"), ("example.org/v1", "Nothing"), ("v1", "Binding")])
async def test_what_cannot_be_listed_is_no_kind(kube: Cluster, client: Kube, version: str, kind: str) -> None:
    """Unknown kind, unknown group, and one that can only be created."""
    with pytest.raises(ApiRefused) as refused:
        await discover(client, version, kind)
    assert refused.value.status == 404
