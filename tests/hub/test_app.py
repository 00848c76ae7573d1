"""The real hub process against a real API server, with nodes on real sockets."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.hubs.hub import HubProcess, config_map, edge_node, fleet, sync_rule, until
from tests.support.joining.pki import Authority
from tests.support.kube.cluster import Cluster
from tests.support.kube.kubernetes import Kubernetes

from fairlead_hub import app, leadership
from fairlead_hub.io.cluster import api_access, kopf_handlers
from fairlead_hub.io.link.link_server import LinkServer
from fairlead_hub.settings import HubSettings
from fairlead_wire import message
from fairlead_wire.io import settings as wire_settings
from fairlead_wire.io import tls

FAST = (
    "[record]\nflush_seconds = 0.2\npending_seconds = 1\n"
    "[reconcile]\ninterval_seconds = 5\nparked_retry_seconds = 1.5\n"
)
QUICK_RETRIES = "[delivery]\nbackoff_retries = 2\nminimum_delay = 0.1\nmaximum_delay = 0.2\nack_timeout = 0.5\n"


@pytest.fixture
def hub(kube: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[HubProcess]:
    process = HubProcess(kube, tmp_path, toml=getattr(request, "param", FAST) + QUICK_RETRIES).start()
    yield process
    assert process.stop() == 0
    assert '"traceback"' not in (tmp_path / "hub.log").read_text()


def records(kube: Cluster, namespace: str) -> dict[tuple[str, str], dict[str, Any]]:
    """(node, object) → status."""
    listed = kube.get(f"/apis/fairlead.dev/v1alpha1/namespaces/{namespace}/objectsyncs")
    return {(i["spec"]["nodeName"], i["spec"]["objectName"]): i.get("status", {}) for i in listed["items"]}


def all_synced(kube: Cluster, namespace: str, count: int) -> bool:
    found = records(kube, namespace)
    return len(found) == count and all(
        s.get("state") == "Synced" and s["objectResourceVersion"] == s["wantedResourceVersion"] for s in found.values()
    )


def versions(kube: Cluster, namespace: str) -> list[str]:
    listed = kube.get(f"/apis/fairlead.dev/v1alpha1/namespaces/{namespace}/objectsyncs")
    return sorted(item["metadata"]["resourceVersion"] for item in listed["items"])


CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


def rule_for(namespace: str) -> dict[str, Any]:
    return sync_rule(f"of-{namespace}", {**CONFIG_MAPS, "namespaces": [namespace]})


def own(held: dict[str, Any], namespace: str) -> set[str]:
    """Names of the test's own ConfigMaps among what a node holds."""
    return {key.split("/")[2] for key in held if key.startswith(f"configmaps/{namespace}/")} - {"kube-root-ca.crt"}


@pytest.mark.verify
async def test_objects_arrive_change_and_go(kube: Cluster, namespace: str, hub: HubProcess) -> None:
    """Create, update, delete, and recreate under the same name: the node has what the cluster has, records say so."""
    kube.apply([edge_node("edge-1"), config_map("a", namespace, v="1"), config_map("b", namespace, v="1")])
    kube.apply(sync_rule("all", {**CONFIG_MAPS, "namespaces": [namespace]}, nodeSelector={}))
    async with fleet(hub, "edge-1", keep_content=True) as nodes:
        node = nodes["edge-1"]
        await until("both are there", lambda: own(node.held, namespace) == {"a", "b"})
        await until("records", lambda: all_synced(kube, namespace, len(node.held)))
        first = node.held[f"configmaps/{namespace}/a"]

        kube.apply(config_map("a", namespace, v="2"))
        await until("the update", lambda: b'"v":"2"' in node.contents[f"configmaps/{namespace}/a"])
        kube.kubectl("delete", "configmap", "b", "-n", namespace)
        await until("the delete", lambda: own(node.held, namespace) == {"a"})
        kube.kubectl("delete", "configmap", "a", "-n", namespace)
        kube.apply(config_map("a", namespace, v="3"))
        await until("the new one", lambda: b'"v":"3"' in node.contents.get(f"configmaps/{namespace}/a", b""))
        assert node.held[f"configmaps/{namespace}/a"].uid != first.uid
        await until("records again", lambda: all_synced(kube, namespace, len(node.held)))


@pytest.mark.verify
async def test_bookkeeping_sends_nothing(kube: Cluster, namespace: str, hub: HubProcess) -> None:
    """A change of managedFields or kubectl's own annotation leaves the content the same: no delivery, no write."""
    kube.apply([edge_node("edge-1"), config_map("status", namespace, v="1")])
    kube.apply(rule_for(namespace))
    async with fleet(hub, "edge-1") as nodes:
        node = nodes["edge-1"]
        await until("records", lambda: node.held and all_synced(kube, namespace, len(node.held)))
        updates, written = node.figures.updates, versions(kube, namespace)
        skipped = hub.metric("fairlead_hub_same_content_total")
        kube.kubectl("annotate", "configmap", "status", "-n", namespace, "--field-manager=another",
                     "kubectl.kubernetes.io/last-applied-configuration={}", "--overwrite")  # fmt: skip
        await until("seen", lambda: hub.metric("fairlead_hub_same_content_total") > skipped)
        assert node.figures.updates == updates
        assert versions(kube, namespace) == written


@pytest.mark.verify
async def test_killed_hub_and_wiped_disk(kube: Cluster, namespace: str, hub: HubProcess) -> None:
    """After kill -9 nothing that is held is sent again; after a wipe everything is, and no record leads."""
    kube.apply([edge_node("edge-1"), *(config_map(f"c{i}", namespace, v="1") for i in range(20))])
    kube.apply(rule_for(namespace))
    async with fleet(hub, "edge-1") as nodes:
        node = nodes["edge-1"]
        await until("all", lambda: len(own(node.held, namespace)) == 20)
        await until("records", lambda: all_synced(kube, namespace, len(node.held)))
        hub.kill()
        kube.kubectl("delete", "configmap", "c0", "-n", namespace)
        kube.apply(config_map("c1", namespace, v="2"))
        before = node.figures.updates
        hub.start()
        await until("deleted while the hub was down", lambda: len(own(node.held, namespace)) == 19)
        await until("records", lambda: all_synced(kube, namespace, len(node.held)))
        assert node.figures.updates == before + 1

        node.wipe()
        await node.drop()
        await until("everything again", lambda: len(own(node.held, namespace)) == 19)
        await until("records", lambda: all_synced(kube, namespace, len(node.held)))


@pytest.mark.verify
@pytest.mark.parametrize(
    "hub", ["[record]\nflush_seconds = 0.2\n[reconcile]\nparked_retry_seconds = 3600\n"], indirect=True
)
async def test_refused_object_is_parked_and_others_go_on(kube: Cluster, namespace: str, hub: HubProcess) -> None:
    """A poison object is parked with its reason; a newer version is tried at once."""
    kube.apply([edge_node("edge-1"), config_map("poison", namespace, v="1"), config_map("good", namespace, v="1")])
    kube.apply(rule_for(namespace))
    poison = "/configmaps/poison"

    def refuse(update: message.Update) -> message.Nack | None:
        if update.resource.endswith(poison):
            return message.Nack(parent_id=update.id, code="too_sour", reason="no lemons", permanent=True)
        return None

    async with fleet(hub, "edge-1", refuse=refuse) as nodes:
        node = nodes["edge-1"]
        await until("the good one", lambda: "good" in own(node.held, namespace))
        await until("parked", lambda: records(kube, namespace).get(("edge-1", "poison"), {}).get("state") == "Parked")
        record = records(kube, namespace)[("edge-1", "poison")]
        assert record["reason"] == "too_sour" and record["nextRetryTime"]
        stalled = next(c for c in record["conditions"] if c["type"] == "Stalled")
        assert (stalled["status"], stalled["reason"], stalled["message"]) == ("True", "TooSour", "no lemons")
        answer = hub.json(f"/v1/explain?node=edge-1&kind=configmap&namespace={namespace}&name=poison")
        assert answer["code"] == "parked" and "no lemons" in answer["answer"]
        node._refuse = lambda update: None
        kube.apply(config_map("poison", namespace, v="2"))
        await until("unparked by a newer version", lambda: "poison" in own(node.held, namespace))
        await until("records", lambda: all_synced(kube, namespace, len(node.held)))


@pytest.mark.verify
async def test_silence_is_retried_then_parked_then_tried_again(kube: Cluster, namespace: str, hub: HubProcess) -> None:
    """One send and the policy's retries without an ack, then Parked; the SyncController tries again by itself."""
    kube.apply([edge_node("edge-1"), config_map("a", namespace, v="1")])
    kube.apply(sync_rule("one", {**CONFIG_MAPS, "namespaces": [namespace], "labelSelector": {
        "matchExpressions": [{"key": "nothing", "operator": "DoesNotExist"}]}}))  # fmt: skip
    async with fleet(hub, "edge-1", behaviour="never-ack") as nodes:
        node = nodes["edge-1"]
        await until("parked", lambda: records(kube, namespace).get(("edge-1", "a"), {}).get("state") == "Parked")
        assert records(kube, namespace)[("edge-1", "a")]["retries"] == 2
        node.behaviour = "well"
        await until("tried again by schedule", lambda: "a" in own(node.held, namespace))
        await until("records", lambda: all_synced(kube, namespace, len(node.held)))


@pytest.mark.verify
async def test_record_deleted_by_hand_comes_back(kube: Cluster, namespace: str, hub: HubProcess) -> None:
    """A deleted or emptied document does not break the line."""
    kube.apply([edge_node("edge-1"), config_map("a", namespace, v="1")])
    kube.apply(rule_for(namespace))
    async with fleet(hub, "edge-1") as nodes:
        node = nodes["edge-1"]
        await until("records", lambda: node.held and all_synced(kube, namespace, len(node.held)))
        kube.kubectl("delete", "objectsyncs", "--all", "-n", namespace)
        await until("written again", lambda: all_synced(kube, namespace, len(node.held)))
        name = kube.kubectl("get", "osync", "-n", namespace, "-o", "name").splitlines()[0]
        kube.kubectl("patch", name, "-n", namespace, "--subresource=status", "--type=json",
                     '-p=[{"op":"replace","path":"/status/objectResourceVersion","value":""}]')  # fmt: skip
        await until("set right", lambda: all_synced(kube, namespace, len(node.held)), seconds=120)


@pytest.mark.verify
async def test_deleted_node_loses_session_and_records(kube: Cluster, namespace: str, hub: HubProcess) -> None:
    """The session ends with a reason, records and EdgeNode go, and a new Node starts anew."""
    kube.apply([edge_node("edge-1"), edge_node("edge-2"), config_map("a", namespace, v="1")])
    kube.apply(rule_for(namespace))
    async with fleet(hub, "edge-1", "edge-2") as nodes:
        await until("records", lambda: {n for n, _ in records(kube, namespace)} == {"edge-1", "edge-2"})
        kube.kubectl("delete", "node", "edge-1")
        await until("refused", lambda: nodes["edge-1"].figures.refused.get("node_deleted"))
        await until("collected", lambda: {n for n, _ in records(kube, namespace)} == {"edge-2"}, seconds=120)
        await until("no EdgeNode", lambda: "edge-1" not in kube.kubectl("get", "enode"), seconds=120)


@pytest.mark.verify
async def test_kind_that_cannot_be_listed_freezes(kube: Cluster, namespace: str, hub: HubProcess) -> None:
    """A custom resource whose definition vanishes is not deleted at the edge; the rule says why."""
    widget = json.loads((Path(__file__).parent / "widget.json").read_text())
    kube.apply(widget)
    kube.kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=120s")
    kube.apply({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": namespace}})
    kube.apply([edge_node("edge-1"), config_map("a", namespace, v="1")])
    kube.apply(sync_rule("widgets", {"apiVersion": "example.com/v1", "kind": "Widget"},
                         {**CONFIG_MAPS, "namespaces": [namespace]}))  # fmt: skip
    async with fleet(hub, "edge-1") as nodes:
        node = nodes["edge-1"]
        await until("both kinds", lambda: f"widgets.example.com/{namespace}/w" in node.held)
        hub.kill()
        kube.kubectl("delete", "crd", "widgets.example.com")
        hub.start()
        await until("said", lambda: "Widget" in kube.kubectl("get", "syncrule", "widgets", "-o", "jsonpath={.status}"))
        kube.kubectl("delete", "configmap", "a", "-n", namespace)
        await until("the other kind goes on", lambda: "a" not in own(node.held, namespace))
        assert f"widgets.example.com/{namespace}/w" in node.held
        kube.kubectl("delete", "syncrule", "widgets")
        await until("not wanted by any rule", lambda: not node.held)


async def test_upstream_without_messaging_is_not_now(kube: Cluster, hub: HubProcess) -> None:
    """No messaging_url: a temporary nack, so that the edge keeps its messages."""
    kube.apply(edge_node("edge-1"))
    async with fleet(hub, "edge-1") as nodes:
        node = nodes["edge-1"]
        await until("connected", node.connected.is_set)
        await node.say(message.Upstream(id=1, stream="s"), b"[]")
        await until("answered", lambda: node.answers)
        answer = node.answers[0]
        assert isinstance(answer, message.Nack) and not answer.permanent and answer.retry_after


async def test_the_console_shows_a_node_that_connects(kube: Cluster, hub: HubProcess) -> None:
    """On the account's own address, by the running program; without messaging it says so."""
    kube.apply(edge_node("edge-seen"))
    async with fleet(hub, "edge-seen") as nodes:
        await until("connected", nodes["edge-seen"].connected.is_set)
        await until("a row", lambda: ">edge-seen<" in hub.text("/console/nodes"))
        await until("in sync", lambda: "In sync" in hub.text("/console/nodes/edge-seen"))
        await until("an event", lambda: "node.connected" in hub.text("/console/events"))
        assert "messaging_url" in hub.text("/console/topics")


async def test_newest_session_wins(kube: Cluster, hub: HubProcess) -> None:
    """Two machines with one identity: the newer one is served, the older one hears why."""
    kube.apply(edge_node("edge-1"))
    async with fleet(hub, "edge-1") as first:
        await until("connected", first["edge-1"].connected.is_set)
        async with fleet(hub, "edge-1") as second:
            await until("the clone is served", second["edge-1"].connected.is_set)
            await until("reported", lambda: first["edge-1"].figures.refused == {"replaced": 1})


async def test_unknown_node_and_old_hub_are_refused(kube: Cluster, hub: HubProcess) -> None:
    """A node that was not created hears so; an edge that obeyed a higher number makes the hub raise its own."""
    kube.apply(edge_node("edge-1"))
    async with fleet(hub, "stranger") as nodes:
        await until("refused", lambda: nodes["stranger"].figures.refused == {"node_unknown": 1})
    async with fleet(hub, "edge-1") as nodes:
        node = nodes["edge-1"]
        node._fence = 1000
        await until("served by a hub above it", lambda: node.welcome and node.welcome.fence > 1000)


@pytest.mark.process
def test_bad_settings_exit_2(tmp_path: Path) -> None:
    """Unknown keys and bad values: exit 2 with file, key and reason."""
    for text, reason in (
        ("nonsense = 1", "nonsense: unknown key"),
        ('security = "insecure"\nlisten = "0.0.0.0:1"', "listen: must be a loopback address"),
        ('security = "insecure"\n[delivery]\nack_timeout = 0', "delivery.ack_timeout"),
        ('security = "mtls"', "tls_ca: required"),
        ('security = "insecure"\nkubeconfig = "/nowhere/kubeconfig"', "/nowhere/kubeconfig"),
    ):
        config = tmp_path / "hub.toml"
        config.write_text(text)
        command = [sys.executable, "-m", "fairlead_cli.main", "hub", "run", "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2, done.stderr
        assert reason in done.stderr, done.stderr


@pytest.mark.verify
async def test_waits_for_an_api_server_that_is_down(kube: Cluster, namespace: str, tmp_path: Path) -> None:
    """The hub starts before the API server: it says so, serves health, and takes up work when it is there."""
    kubeconfig = json.loads(kube.kubeconfig.read_text())
    kubeconfig["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    away = tmp_path / "away"
    away.write_text(json.dumps(kubeconfig))
    hub = HubProcess(kube, tmp_path)
    hub.config.write_text(hub.config.read_text().replace(str(kube.kubeconfig), str(away)))
    hub.start(ready=False)
    await until("it says what it waits for", lambda: hub.events("lease_wait"), seconds=120)
    assert hub.text("/healthz") == "ok\n"
    assert not hub.is_ready()
    assert hub.stop() == 0


def token_of(kube: Cluster, namespace: str, secret: str) -> str:
    """A token of an account that may do everything, until the secret is deleted."""
    kube.kubectl("create", "secret", "generic", secret, "-n", namespace)
    bound = ("--bound-object-kind", "Secret", "--bound-object-name", secret)
    return kube.kubectl("create", "token", "default", "-n", namespace, *bound).strip()


@pytest.mark.verify
async def test_a_token_that_is_rejected_is_said_and_read_again(kube: Cluster, namespace: str, tmp_path: Path) -> None:
    """The node stays connected, one line says what is wrong, and the renewed token is found, by kopf too."""
    binding = f"hub-{namespace}"
    account = f"--serviceaccount={namespace}:default"
    kube.kubectl("create", "clusterrolebinding", binding, "--clusterrole=cluster-admin", account)
    token, config = tmp_path / "token", kube.config("")
    token.write_text(token_of(kube, namespace, "first"))
    config["users"][0]["user"] = {"tokenFile": str(token)}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    hub = HubProcess(Kubernetes(tmp_path / "kubeconfig"), tmp_path, toml=FAST).start()
    kube.apply([edge_node("edge-1"), config_map("before", namespace)])
    kube.apply(rule_for(namespace))
    async with fleet(hub, "edge-1") as nodes:
        node = nodes["edge-1"]
        await until("it is served", lambda: own(node.held, namespace) == {"before"})
        kube.kubectl("delete", "secret", "first", "-n", namespace)
        # The API server believes a token for some seconds after it checked it, and watches are not asked again.
        kube.restart_apiserver()
        await until("it says so", lambda: hub.events("credentials_rejected"))
        await until("kopf gave up", lambda: hub.events("operator_restarted"), seconds=120)
        assert node.connected.is_set() and node.figures.connections == 1
        token.write_text(token_of(kube, namespace, "second"))
        kube.apply(config_map("after", namespace))
        await until("the change", lambda: "after" in own(node.held, namespace), seconds=120)
        kube.apply(sync_rule("later", CONFIG_MAPS))
        path = "/apis/fairlead.dev/v1alpha1/syncrules/later"
        await until("a verdict", lambda: "conditions" in kube.get(path).get("status", {}), seconds=120)
    assert len(hub.events("credentials_rejected")) == len(hub.events("credentials_accepted")) == 1
    assert not hub.events("crds_missing"), "that is not what is wrong"
    assert hub.stop() == 0
    kube.kubectl("delete", "clusterrolebinding", binding)


@pytest.mark.verify
async def test_mutual_tls_from_end_to_end(kube: Cluster, namespace: str, tmp_path: Path) -> None:
    """The process with certificates: a node is who its certificate says, and gets its objects."""
    authority = Authority(tmp_path / "pki")
    server, client = authority.issue("hub", hosts=("127.0.0.1",)), authority.issue("edge-1")
    top = f'tls_ca = "{authority.certificate}"\ntls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
    hub = HubProcess(kube, tmp_path, top=top)
    hub.config.write_text(hub.config.read_text().replace('"insecure"', '"mtls"'))
    hub.url = hub.url.replace("ws://", "wss://")
    hub.start()
    kube.apply([edge_node("edge-1"), config_map("a", namespace, v="1")])
    kube.apply(rule_for(namespace))
    context = tls.client_context(tls.Files(ca=authority.certificate, cert=client.certificate, key=client.key))
    async with fleet(hub, "edge-1", context=context) as nodes:
        await until("it arrives", lambda: "a" in own(nodes["edge-1"].held, namespace))
    assert hub.stop() == 0


@pytest.mark.verify
async def test_the_lease_is_given_back_before_what_takes_long(
    kube: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Pod that is deleted by force has two seconds; the next hub would wait for the Lease of one that needs three."""
    lease_path = f"apis/coordination.k8s.io/v1/namespaces/default/leases/{leadership.NAME}"

    def is_free() -> bool:
        return leadership.holder_of(kube.get(f"/{lease_path}")) == ""

    async def slow(*_: object) -> None:
        """Nodes that do not end their links, an operator that does not end: as long as the Lease is not free."""
        await until("the Lease is free", is_free)

    monkeypatch.setattr(LinkServer, "drain", slow)

    async def slow_to_end(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await slow()

    monkeypatch.setattr(kopf_handlers, "run", slow_to_end)
    config = HubProcess(kube, tmp_path).config
    settings = wire_settings.load("hub", HubSettings, config, {})
    running = app._App(settings, api_access.load(str(kube.kubeconfig)), None, None, None, None)
    task = asyncio.create_task(running.main())
    await until("it is the hub", lambda: leadership.holder_of(kube.get(f"/{lease_path}")) != "")
    await until("it serves", lambda: running._health.not_ready == "")
    running._stop.set()
    assert await task == 0


@pytest.mark.verify
async def test_an_address_in_use_is_one_sentence(kube: Cluster, hub: HubProcess, tmp_path: Path) -> None:
    """A second hub on the same ports ends with 1 and the reason, without a traceback."""
    folder = tmp_path / "second"
    folder.mkdir()
    second = HubProcess(kube, folder)
    second.config.write_text(hub.config.read_text())
    second.start(ready=False)
    assert second.running is not None
    await until("it ends", lambda: second.running is not None and not second.running.alive, seconds=120)
    assert second.running.process.returncode == 1
    assert "address already in use" in second.events("cannot_serve")[0]["reason"]
    assert "Traceback" not in second.running.log.read_text()


@pytest.mark.process
def test_a_hub_that_signs_nothing_does_without_cryptography() -> None:
    """It would cost 9 MB of memory."""
    program = "import sys, fairlead_hub.app; print('cryptography' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert said.stdout == "False\n"
