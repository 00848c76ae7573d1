"""Who may send to modules, as a real API server says it: tokens of accounts with and without a grant, security on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hub.live.messages.test_inputs import call
from tests.support.hubs.hub import HubProcess, edge_node
from tests.support.joining.pki import Authority
from tests.support.kube.cluster import Cluster

pytestmark = [pytest.mark.kube, pytest.mark.verify]
RBAC = "rbac.authorization.k8s.io"
NAME = "send-to-edge-1"


@pytest.fixture
def tokens(kube: Cluster) -> Iterator[dict[str, str]]:
    """Of an account with the grant of the how-to, and of one without."""
    kube.apply([edge_node("edge-1"), edge_node("edge-2")])
    found = {}
    for name in ("sender", "stranger"):
        kube.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}})
        found[name] = kube.kubectl("create", "token", name, "--namespace=default").strip()
    rule = {"apiGroups": ["fairlead.dev"], "resources": ["edgenodes/inputs"], "resourceNames": ["edge-1"]}
    meta = {"name": NAME}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": meta}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": "sender", "namespace": "default"}],
    }
    kube.apply([{**role, "rules": [{**rule, "verbs": ["create", "get"]}]}, binding])
    yield found
    kube.kubectl("delete", "clusterrole,clusterrolebinding", NAME)
    kube.kubectl("delete", "serviceaccount", *found, "--namespace=default")


def test_the_cluster_says_who_may(kube: Cluster, tokens: dict[str, str], tmp_path: Path) -> None:
    """Admitted, a message finds its node away; all others hear nothing of the node."""
    authority = Authority(tmp_path / "pki", "all")
    server = authority.issue("hub", hosts=("127.0.0.1",))
    top = f'tls_ca = "{authority.certificate}"\ntls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
    hub = HubProcess(kube, tmp_path, top=top)
    hub.config.write_text(hub.config.read_text().replace('"insecure"', '"mtls"'))
    hub.start()

    def sent(token: str, node: str = "edge-1", id: str = "") -> tuple[int, str]:
        url = f"http://127.0.0.1:{hub.http_port}/v1/nodes/{node}/inputs/camera/commands/messages"
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        status, found = call(f"{url}/{id}" if id else url, None if id else {"body": 1}, **shown)
        return status, found["error"]["code"]

    try:
        assert sent(tokens["sender"]) == (503, "node_away")
        assert sent(tokens["sender"], id="a" * 32) == (503, "node_away")
        assert sent(tokens["sender"], node="edge-2") == (403, "forbidden")
        assert sent(tokens["sender"], node="edge-9") == (403, "forbidden")
        assert sent(tokens["stranger"]) == (403, "forbidden")
        assert sent("") == sent("x") == sent(tokens["sender"][:-8] + "AAAAAAAA") == (401, "no_identity")
    finally:
        assert hub.stop() == 0
    log = (tmp_path / "hub.log").read_text()
    assert '"traceback"' not in log and not any(token in log for token in tokens.values())
