"""`fairlead node revoke` and `approve` on a real API server: what is written, and what is said."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.kube import api_in_memory, written_by_hand
from tests.support.kube.api_in_memory import ApiInMemory
from tests.support.kube.cluster import Cluster
from tests.support.processes import wait_until

from fairlead_cli.commands.cluster import node
from fairlead_cli.main import build

IDENTITY = {"nodeUID": "u", "issued": "2026-01-01T00:00:00Z", "expires": "2027-01-01T00:00:00Z", "held": ""}
NOW = datetime.datetime(2026, 11, 23, 8, 0, 0, 500_000, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    written_by_hand.install(cluster)
    yield cluster
    written_by_hand.remove(cluster)
    cluster.kubectl("delete", "edgenode", "act-3", "--ignore-not-found")


@pytest.fixture
def kube(installed: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """act-1 has a session and nothing was revoked; no hub runs, and none is waited for."""
    monkeypatch.setattr(node, "NOTICED_SECONDS", 0.0)
    installed.kubectl("delete", "edgenode", "act-1", "act-2", "act-3", "--ignore-not-found")
    written_by_hand.edge_node(installed, "act-1", identity=IDENTITY | {"state": "Valid"})
    return installed


def run(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(build(), ["node", *words, "--kubeconfig", str(cluster.kubeconfig)])


def stands(cluster: Cluster, name: str = "act-1") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.kubectl("get", "edgenode", name, "-o", "json"))
    return found


def test_revoked_now_and_why(kube: Cluster) -> None:
    """By the API server's clock, which is this machine's here; that no hub has noticed is no failure, and is said."""
    done = run(kube, "revoke", "act-1", "--reason", "stolen  on Tuesday")
    assert done.exit_code == 0 and done.output.count("\n") == 1
    revoked = stands(kube)["spec"]["revoked"]
    assert revoked["reason"] == "stolen on Tuesday"
    said = f"node/act-1: its certificates from before {revoked['before']} are revoked; no hub has confirmed it yet"
    assert said in done.output
    before = datetime.datetime.fromisoformat(revoked["before"])
    assert abs((before - datetime.datetime.now(datetime.UTC)).total_seconds()) < 300


def test_a_hub_that_noticed_is_waited_for(kube: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "NOTICED_SECONDS", 100.0)

    def hub() -> None:
        wait_until("it is written", lambda: stands(kube).get("spec", {}).get("revoked"), seconds=90)
        kube.kubectl("patch", "enode", "act-1", "--subresource=status", "--type=merge", "-p", json.dumps(
            {"status": {"connected": False, "identity": IDENTITY | {"state": "Revoked"}}}
        ))  # fmt: skip

    thread = threading.Thread(target=hub)
    thread.start()
    done = run(kube, "revoke", "act-1", "-o", "json")
    thread.join()
    assert json.loads(done.stdout)["status"]["identity"]["state"] == "Revoked"
    assert done.stderr.endswith("are revoked, and its session has ended\n")


def test_a_node_that_was_never_seen(kube: Cluster) -> None:
    """Its EdgeNode is made, with no owner that would take it along."""
    done = run(kube, "revoke", "act-3", "--force", "-o", "name")
    assert (done.exit_code, done.stdout) == (0, "edgenode.fairlead.dev/act-3\n")
    found = stands(kube, "act-3")
    assert found["spec"]["revoked"]["reason"] == "" and "ownerReferences" not in found["metadata"]
    assert "there was no EdgeNode act-3, so one was created" in done.stderr


@pytest.mark.parametrize("name", ["", "Act 1", "act_1", "../nodes"])
def test_a_name_that_no_node_has_is_wrong_use(name: str) -> None:
    done = CliRunner().invoke(build(), ["node", "revoke", name])
    assert done.exit_code == 2 and "cannot be the name of a Node" in done.stderr


@pytest.mark.parametrize("verb", ["revoke", "delete"])
def test_a_name_that_nothing_has(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be mistyped: nothing is written, and it says what was looked for."""
    api = ApiInMemory()
    api.is_asked(monkeypatch)
    done = CliRunner().invoke(build(), ["node", verb, "shop-71"])
    assert (done.exit_code, api.written) == (1, [])
    assert "there is no Node, EdgeNode, JoinToken or record named shop-71; fairlead nodes lists" in done.stderr
    assert CliRunner().invoke(build(), ["node", verb, "shop_71"]).exit_code == 2


TOKEN = {"metadata": {"name": "abcdef"}, "spec": {"node": "shop-17"}}


@pytest.mark.parametrize(
    ("collection", "item"),
    [(api_in_memory.NODES, {"metadata": {"name": "shop-17"}}), (api_in_memory.TOKENS, TOKEN)],
)
def test_what_there_is_of_a_node_is_enough(
    collection: str, item: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Node, or a token for it, without an EdgeNode."""
    monkeypatch.setattr(node, "NOTICED_SECONDS", 0.0)
    monkeypatch.setattr(node, "RECORDS_SECONDS", 0.0)
    api = ApiInMemory({collection: [item]})
    api.is_asked(monkeypatch)
    done = CliRunner().invoke(build(), ["node", "revoke", "shop-17"])
    assert done.exit_code == 0 and "there was no EdgeNode shop-17, so one was created" in done.output
    api.objects.pop(api_in_memory.EDGE_NODES)
    done = CliRunner().invoke(build(), ["node", "delete", "shop-17"])
    assert done.exit_code == 0 and done.output.startswith("deleted ") and api.objects == {collection: []}


def test_a_revocation_is_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else of its spec is touched; a second time there is nothing to lift."""
    spec = {"revoked": {"before": "2026-11-23T08:00:00Z", "reason": ""}, "other": 1}
    api = ApiInMemory({api_in_memory.EDGE_NODES: [{"metadata": {"name": "shop-17"}, "spec": spec}]})
    api.is_asked(monkeypatch)
    done = CliRunner().invoke(build(), ["node", "unrevoke", "shop-17"])
    assert done.exit_code == 0 and "accepted again; it comes back within ten minutes, or at once" in done.output
    assert api.objects[api_in_memory.EDGE_NODES][0]["spec"] == {"other": 1}
    done = CliRunner().invoke(build(), ["node", "unrevoke", "shop-17"])
    assert (done.exit_code, done.output, len(api.written)) == (0, "node/shop-17 is not revoked\n", 1)
    assert CliRunner().invoke(build(), ["node", "unrevoke", "shop-71"]).exit_code == 1


def test_a_replaced_device_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its revocation is lifted only by --force; a revocation that follows does not hide that it was replaced."""
    monkeypatch.setattr(node, "NOTICED_SECONDS", 0.0)
    spec = {"revoked": {"before": "2026-11-23T08:00:00Z", "reason": "replaced by token abcdefgh27"}}
    edge_node = {"metadata": {"name": "shop-17", "resourceVersion": "1"}, "spec": spec}
    api = ApiInMemory({api_in_memory.EDGE_NODES: [edge_node]})
    api.is_asked(monkeypatch)
    done = CliRunner().invoke(build(), ["node", "unrevoke", "shop-17"])
    assert (done.exit_code, api.written) == (1, [])
    assert "token abcdefgh27" in done.stderr and "lets the old device" in done.stderr and "--force" in done.stderr
    assert CliRunner().invoke(build(), ["node", "revoke", "shop-17", "--reason", "stolen"]).exit_code == 0
    assert api.objects[api_in_memory.EDGE_NODES][0]["spec"]["revoked"]["reason"].endswith("abcdefgh27; stolen")
    assert CliRunner().invoke(build(), ["node", "unrevoke", "shop-17"]).exit_code == 1
    done = CliRunner().invoke(build(), ["node", "unrevoke", "shop-17", "--force"])
    assert done.exit_code == 0 and api.objects[api_in_memory.EDGE_NODES][0]["spec"] == {}


def test_an_owner_is_taken_off(kube: Cluster) -> None:
    """What a Node takes along when it is deleted would take the revocation along, too."""
    # One that is there: of an owner that never was the garbage collector would take it along at once.
    uid = kube.kubectl("get", "namespace", "default", "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": uid.strip()}
    patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
    kube.kubectl("patch", "enode", "act-1", "--type=merge", "-p", patch)
    assert run(kube, "revoke", "act-1").exit_code == 0
    assert "ownerReferences" not in stands(kube)["metadata"]


@pytest.mark.parametrize(
    ("issued", "known", "expected"),
    [
        ("2026-01-01T00:00:00Z", None, "2026-11-23T08:00:01Z"),
        ("2026-11-23T08:30:00Z", None, "2026-11-23T08:30:01Z"),
        (None, "2026-11-23T09:00:00Z", "2026-11-23T09:00:01Z"),
        ("soon", "never", "2026-11-23T08:00:01Z"),
    ],
)
def test_the_moment_is_behind_all_that_was_issued(issued: str | None, known: str | None, expected: str) -> None:
    found: dict[str, Any] = {"status": {"identity": {"issued": issued} if issued else None}}
    if known:
        found["spec"] = {"revoked": {"before": known}}
    assert node.before(found, NOW) == expected


def test_a_reason_is_one_line(kube: Cluster) -> None:
    done = run(kube, "revoke", "act-1", "--reason", "x" * 300)
    assert done.exit_code == 2 and "at most 256 characters" in done.output
    assert "spec" not in stands(kube)


def test_what_is_held_is_approved(kube: Cluster) -> None:
    assert run(kube, "approve", "act-1").output.startswith("node/act-1: nothing to approve: no certificate is held")
    written_by_hand.edge_node(kube, "act-1", identity=IDENTITY | {"state": "Held", "held": "uid-2"})
    done = run(kube, "approve", "act-1")
    assert (done.exit_code, done.output) == (0, "node/act-1: approved (uid-2); the node reconnects within a minute\n")
    assert written_by_hand.instructions(kube, "enode", "act-1") == {"fairlead.dev/approve-identity": "uid-2"}
    assert "already approved" in run(kube, "approve", "act-1").output


def test_a_fencing_number_may_be_given_up(kube: Cluster) -> None:
    written_by_hand.edge_node(kube, "act-1", connected=False, obeyedFence=1_000_000)
    done = run(kube, "approve", "act-1")
    assert "approved (it may reset fencing number 1000000); the node reconnects" in done.output
    assert written_by_hand.instructions(kube, "enode", "act-1") == {"fairlead.dev/approve-fence": "1000000"}
    assert "already approved" in run(kube, "approve", "act-1").output


def test_an_approval_lifts_no_revocation(kube: Cluster) -> None:
    written_by_hand.edge_node(kube, "act-1", identity=IDENTITY | {"state": "Revoked", "held": "uid-2"})
    done = run(kube, "approve", "act-1")
    assert done.exit_code == 1 and "fairlead token create --node act-1 --replace" in done.output
    assert written_by_hand.instructions(kube, "enode", "act-1") == {}
    assert run(kube, "approve", "act-9").exit_code == 1


EDGE_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "act-1", "labels": {"node-role.kubernetes.io/edge": ""}},
}


@pytest.fixture
def edge(kube: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """act-1 has a Node, too; no hub runs."""
    monkeypatch.setattr(node, "RECORDS_SECONDS", 0.0)
    monkeypatch.setattr(node, "ENDED_SECONDS", 0.0)
    kube.apply(EDGE_NODE)
    yield kube
    kube.kubectl("delete", "node", "act-1", "--ignore-not-found")


def says(cluster: Cluster, **status: Any) -> None:
    cluster.kubectl(
        "patch", "enode", "act-1", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})
    )


def test_a_node_in_service_is_not_deleted(edge: Cluster) -> None:
    """Connected, or with messages that it has not delivered; unless it is forced."""
    done = run(edge, "delete", "act-1")
    assert done.exit_code == 1 and "fairlead edge leave" in done.output
    says(edge, connected=False, queues=[{"priority": 0, "length": 3}, {"priority": 5, "length": 4}])
    done = run(edge, "delete", "act-1")
    assert done.exit_code == 1 and "had 7 messages to deliver" in done.output
    done = run(edge, "delete", "act-1", "--force", "--dry-run")
    assert done.exit_code == 0 and "would be deleted    node/act-1" in done.output
    assert "node/act-1" in edge.kubectl("get", "nodes", "-o", "name") and "revoked" not in stands(edge).get("spec", {})


def test_a_deleted_node_stays_revoked_while_its_certificate_could_come_back(edge: Cluster) -> None:
    says(edge, connected=False)
    done = run(edge, "delete", "act-1")
    assert done.exit_code == 0, done.output
    assert "node/act-1" not in edge.kubectl("get", "nodes", "-o", "name").split()
    assert stands(edge)["spec"]["revoked"]["reason"] == "node deleted"
    assert "kept       edgenode/act-1" in done.output and "2027-01-01T00:00:00Z" in done.output
    says(edge, identity=IDENTITY | {"state": "Expired", "expires": "2026-02-01T00:00:00Z"})
    done = run(edge, "delete", "act-1")
    assert done.exit_code == 0 and "deleted    edgenode/act-1" in done.output
    done = run(edge, "delete", "act-1")
    assert done.exit_code == 1 and "there is no Node, EdgeNode, JoinToken or record named act-1" in done.output
