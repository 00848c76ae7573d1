"""`fairlead diff` on a real API server: by versions, and by contents against a real agent's store."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.hubs.hub import config_map
from tests.support.kube import written_by_hand
from tests.support.kube.cluster import Cluster

from fairlead_cli.commands.cluster import diff
from fairlead_cli.main import build


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """act-1 holds `a` as wanted, an older `b`, and `gone`, which the cluster has no more."""
    written_by_hand.install(cluster)
    written_by_hand.edge_node(cluster, "act-1")
    written_by_hand.edge_node(cluster, "act-2")
    cluster.apply([config_map("a", "act-test", v="1"), config_map("b", "act-test", v="2")])
    sync = written_by_hand.object_sync
    sync(cluster, "act-1", "a", state="Synced", objectResourceVersion="7", wantedResourceVersion="7")
    sync(cluster, "act-1", "b", state="Pending", reason="Lagging", objectResourceVersion="5", wantedResourceVersion="9")
    sync(cluster, "act-1", "gone", state="Deleting", reason="Kept", objectResourceVersion="3")
    yield cluster
    written_by_hand.remove(cluster)


@pytest.fixture
def edge() -> Iterator[str]:
    """An agent that holds `a` as wanted, an older `b`, and `gone`."""
    held = {"a": "1", "b": "1", "gone": "1"}

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            import json

            name = self.path.rsplit("/", 1)[1]
            found = config_map(name, "act-test", v=held[name])
            found["metadata"] |= {"resourceVersion": "1", "annotations": {"fairlead.dev/age-seconds": "3"}}
            found["metadata"]["uid"] = uids.get(name, "uid-gone")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Agent)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


uids: dict[str, str] = {}


def run(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(build(), ["diff", "--kubeconfig", str(cluster.kubeconfig), *words])


def test_versions(installed: Cluster) -> None:
    """What is not as wanted, with both versions; exit 1, as diff does."""
    done = run(installed, "act-1")
    assert done.exit_code == 1, done.output
    assert done.stdout.splitlines() == [
        "--- cluster act-test/configmap/b version 9",
        "+++ act-1 act-test/configmap/b version 5",
        "@@ Pending: Lagging @@",
        "--- cluster act-test/configmap/gone is not wanted",
        "+++ act-1 act-test/configmap/gone version 3",
        "@@ Deleting: Kept @@",
    ]
    assert "compare contents with --edge URL" in done.stderr


def test_no_difference(installed: Cluster) -> None:
    done = run(installed, "act-2")
    assert (done.exit_code, done.output) == (0, "no difference in 0 objects\n")
    done = run(installed, "configmap/a", "-n", "act-test", "--node", "act-1")
    assert (done.exit_code, done.output) == (0, "no difference in 1 object\n")


def test_contents(installed: Cluster, edge: str) -> None:
    import json

    listed = json.loads(installed.kubectl("get", "configmaps", "-n", "act-test", "-o", "json"))["items"]
    uids.update({item["metadata"]["name"]: item["metadata"]["uid"] for item in listed})
    done = run(installed, "act-1", "--edge", edge)
    assert done.exit_code == 1, done.output
    lines = done.stdout.splitlines()
    assert lines[:2] == ["--- cluster act-test/configmap/b", "+++ act-1 act-test/configmap/b"]
    assert '-  v: "2"' in lines and '+  v: "1"' in lines
    assert "--- cluster act-test/configmap/gone" in lines and not any("configmap/a" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("act-9",), 1, "there is no EdgeNode act-9"),
        (("configmap/a", "-n", "act-test", "--edge", "http://127.0.0.1:1"), 2, "name its node with --node"),
        (("configmap/a", "-n", "act-test", "--node", "act-2"), 1, "no ObjectSync of configmap/a exists for node act-2"),
        (("act-1", "--edge", "http://127.0.0.1:1"), 1, "the agent at http://127.0.0.1:1 does not answer"),
    ],
)
def test_what_cannot_be_compared(installed: Cluster, words: tuple[str, ...], code: int, text: str) -> None:
    done = run(installed, *words)
    assert done.exit_code == code and text in done.output, done.output


# ---- differences of two versions, for people ----


KEY = b"k" * 32


def some_config_map(value: str, **metadata: Any) -> dict[str, Any]:
    names = {"name": "prices", "namespace": "shop", "uid": "u", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": names, "data": {"a": value}}


def test_fields_that_always_differ_are_no_difference() -> None:
    """Versions, the hub's annotations, status, and the order of keys."""
    ours = some_config_map("1", resourceVersion="7", annotations={"fairlead.dev/paused": "x"})
    theirs = dict(
        reversed(some_config_map("1", resourceVersion="3", annotations={"fairlead.dev/age-seconds": "9"}).items())
    )
    assert diff.unified(ours, {**theirs, "status": {}}, ("cluster", "edge-1"), KEY) == []


def test_a_difference() -> None:
    found = diff.unified(some_config_map("1"), some_config_map("2"), ("cluster", "edge-1"), KEY)
    assert found[:2] == ["--- cluster", "+++ edge-1"]
    assert [line for line in found[3:] if line[0] in "+-"] == ['-  a: "1"', '+  a: "2"']


def test_an_object_on_one_side_only() -> None:
    found = diff.unified(some_config_map("1"), None, ("cluster", "edge-1"), KEY)
    assert found and all(line.startswith("-") for line in found[3:])


def test_secrets_are_compared_and_never_shown() -> None:
    one, two = (
        {**some_config_map(""), "kind": "Secret", "data": {"p": base64.b64encode(text).decode()}}
        for text in (b"hunter2", b"x")
    )
    shown = "\n".join(diff.unified(one, two, ("cluster", "edge-1"), KEY))
    assert "(hidden: 7 bytes, digest " in shown and "(hidden: 1 bytes, digest " in shown
    assert "hunter2" not in shown and base64.b64encode(b"hunter2").decode() not in shown


def test_a_digest_cannot_be_looked_up() -> None:
    """Of a short password a plain digest would tell which it is; with another key it is another one."""
    secret = {**some_config_map(""), "kind": "Secret", "data": {"p": base64.b64encode(b"1234").decode()}}
    first, again, other = (diff.unified(secret, None, ("a", "b"), key) for key in (KEY, KEY, b"x" * 32))
    assert first == again != other
    assert hashlib.sha256(b"1234").hexdigest()[:12] not in "\n".join(first)


def test_what_kubectl_notes_is_not_shown() -> None:
    """The annotation of `kubectl apply` holds a Secret's values once more."""
    noted = {"kubectl.kubernetes.io/last-applied-configuration": '{"stringData": {"p": "hunter2"}}'}
    secret = {**some_config_map("", annotations=noted), "kind": "Secret", "data": {}}
    assert "hunter2" not in "\n".join(diff.unified(secret, None, ("cluster", "edge-1"), KEY))
