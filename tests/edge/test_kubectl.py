"""The real kubectl against the edge's local API: what people will type."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.edges.edge_api import TOKEN, Api, serving
from tests.support.edges.held import config_map, put
from tests.support.joining.pki import Authority
from tests.support.kube.assets import assets

from fairlead_edge.io.local_api.connections import LocalConnections
from fairlead_edge.io.local_api.listener import BACKLOG, Listener
from fairlead_wire import message
from fairlead_wire.io.acceptor import bound
from fairlead_wire.objects import digest

pytestmark = pytest.mark.kube

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "till", "namespace": "shop", "uid": "u", "labels": {"app": "till"}},
    "spec": {"nodeName": "edge-1", "containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Running"},
}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "shop"}, "data": {"k": "dg=="}}
TILL = {"apiVersion": "shop.example/v2", "kind": "Till", "metadata": {"name": "front", "namespace": "shop"}}


class Kubectl:
    """Runs kubectl as a person would, with a home of its own."""

    def __init__(self, api: Api, home: Path) -> None:
        self.api = api
        self._home = home
        self._command = [str(assets("kubectl") / "kubectl"), "--server", str(api.client.make_url("")).rstrip("/")]

    async def __call__(self, *arguments: str) -> tuple[int, str]:
        """Exit code and what it printed."""
        done = await asyncio.to_thread(
            subprocess.run,
            [*self._command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            env={"HOME": str(self._home), "PATH": "/usr/bin:/bin", "KUBE_EDITOR": "sed -i s/v$/w/"},
        )
        return done.returncode, done.stdout

    @contextlib.asynccontextmanager
    async def lines(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        """What it prints while it runs."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={"HOME": str(self._home), "PATH": "/usr/bin:/bin"},
        )
        try:
            assert process.stdout is not None
            yield process.stdout
        finally:
            process.kill()
            await process.wait()


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with serving() as api:
        await api.hold(put(POD, "pods"), put(SECRET, "secrets"), put(TILL, "tills"))
        await api.hold(*(put(config_map(f"cm-{number}", labels={"odd": str(number % 2)})) for number in range(7)))
        yield Kubectl(api, tmp_path)


async def test_reading(kubectl: Kubectl) -> None:
    _, pods = await kubectl("get", "po", "-A", "-o", "wide")
    assert "NAMESPACE" in pods and "READY" in pods and "edge-1" in pods
    assert await kubectl("get", "cm", "-n", "shop", "cm-1", "-o", "jsonpath={.data.k}") == (0, "v")
    _, names = await kubectl("get", "cm", "-n", "shop", "-l", "odd=1", "-o", "name")
    assert names.split() == ["configmap/cm-1", "configmap/cm-3", "configmap/cm-5"]
    _, paged = await kubectl("get", "cm", "-n", "shop", "--chunk-size=3", "-o", "name")
    assert len(paged.split()) == 7
    _, by_field = await kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName=edge-1", "-o", "name")
    assert by_field.strip() == "pod/till"
    _, text = await kubectl("get", "pods", "-n", "shop", "-o", "yaml")
    assert "fairlead.dev/age-seconds" in text
    _, tills = await kubectl("get", "tills.shop.example", "-n", "shop")
    assert tills.split()[:3] == ["NAME", "AGE", "front"]
    assert "No resources found" in (await kubectl("get", "services", "-n", "shop"))[1]
    assert (await kubectl("get", "all", "-n", "shop", "-o", "name"))[1].split() == ["pod/till"]


async def test_describe_and_wait(kubectl: Kubectl) -> None:
    for arguments, said in (
        (("pod", "till"), "Node:"),
        (("cm", "cm-1"), "Data"),
        (("till", "front"), "shop.example/v2"),
    ):
        code, described = await kubectl("describe", *arguments, "-n", "shop")
        assert code == 0 and said in described, described
    assert "No resources found" in (await kubectl("get", "events", "-n", "shop"))[1]
    code, met = await kubectl(
        "wait", "--for=jsonpath={.status.phase}=Running", "pod/till", "-n", "shop", "--timeout=10s"
    )
    assert (code, met.strip()) == (0, "pod/till condition met")


async def test_watching(kubectl: Kubectl) -> None:
    watch = "get", "cm", "-n", "shop", "-w", "-o", "name", "-l", "odd=1"
    async with kubectl.lines(*watch) as printed, asyncio.timeout(100):
        there = [await printed.readline() for _ in range(3)]
        assert there == [b"configmap/cm-1\n", b"configmap/cm-3\n", b"configmap/cm-5\n"]
        await kubectl.api.hold(put(config_map("cm-new", labels={"odd": "1"})))
        assert await printed.readline() == b"configmap/cm-new\n"


async def test_refusals_are_readable(kubectl: Kubectl) -> None:
    for arguments, said in (
        (("get", "cm", "nope", "-n", "shop"), "not found"),
        (("delete", "cm", "cm-1", "-n", "shop"), "change the object in the cluster"),
        (("get", "secrets", "-n", "shop"), "need the token"),
        (("get", "widgets"), "doesn't have a resource type"),
        (("get", "pods", "-A", "--field-selector", "status.nope=1"), "field label not supported: status.nope"),
    ):
        code, printed = await kubectl(*arguments)
        assert code == 1 and said in printed, printed


CHANGED = {**config_map("cm-1"), "data": {"k": "w"}}


@pytest.mark.parametrize(
    "command",
    [
        "apply -f FILE",
        "apply --server-side -f FILE",
        "apply --server-side --dry-run=server -f FILE",
        "diff -f FILE",
        "diff --server-side -f FILE",
        "replace -f FILE",
        "create -f FILE",
        "delete -f FILE",
        "label cm cm-1 -n shop x=y",
        "annotate cm cm-1 -n shop x=y",
        'patch cm cm-1 -n shop -p {"data":{"k":"w"}}',
        "edit cm cm-1 -n shop",
    ],
)
async def test_every_write_is_refused_in_one_sentence(kubectl: Kubectl, tmp_path: Path, command: str) -> None:
    file = tmp_path / "changed.json"
    file.write_bytes(msgspec.json.encode(CHANGED))
    code, printed = await kubectl(*command.replace("FILE", str(file)).split())
    assert code != 0 and "is not served at the edge: change the object in the cluster" in printed, printed
    assert "openapi" not in printed.lower() and "not found" not in printed.lower(), printed


async def test_status_is_applied_by_the_command_the_refusal_names(kubectl: Kubectl, tmp_path: Path) -> None:
    """A strategic merge is refused with the two commands that work, and both do."""
    rules = msgspec.json.encode([message.StatusRule(rule="r", kind="ConfigMap", namespaces=["shop"], allowed=True)])
    await kubectl.api.store.statuses.replace_rules(rules, digest.content_digest(rules))
    file = tmp_path / "status.json"
    reported = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm-1", "namespace": "shop"}}
    file.write_bytes(msgspec.json.encode({**reported, "status": {"phase": "Ready"}}))
    patch = "patch", "cm", "cm-1", "-n", "shop", "--subresource=status", "-p", '{"status":{"seen":1}}'
    code, printed = await kubectl(*patch)
    assert code == 1 and "kubectl patch --type=merge" in printed and "kubectl apply --server-side" in printed
    apply = "apply", "--server-side", "--subresource=status", "-f", str(file)
    assert await kubectl(*apply) == (0, "configmap/cm-1 serverside-applied\n")
    assert (await kubectl(*patch, "--type=merge"))[0] == 0
    shown = await kubectl("get", "cm", "-n", "shop", "cm-1", "-o", "jsonpath={.status}")
    assert shown == (0, '{"phase":"Ready","seen":1}')
    file.write_bytes(msgspec.json.encode(CHANGED))
    code, printed = await kubectl(*apply)
    assert code == 1 and "data: only status can be changed at the edge" in printed, printed


async def test_explain_says_where_the_fields_are(kubectl: Kubectl) -> None:
    for kind, said in (("cm", "kubectl explain configmaps"), ("tills", "GROUP:      shop.example")):
        code, printed = await kubectl("explain", kind)
        assert code == 0 and said in printed and "cluster" in printed, printed


async def test_over_tls_with_the_token_also_secrets(kubectl: Kubectl, tmp_path: Path) -> None:
    """kubectl sends a token over TLS only; the agent's port speaks both."""
    authority = Authority(tmp_path / "pki")
    pair = authority.issue("edge-1", hosts=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server = kubectl.api.client.server.handler
    port = Listener(bound("127.0.0.1", 0, backlog=BACKLOG), server, LocalConnections(), context=context, plain=True)
    try:
        code, printed = await kubectl(
            "get",
            "secrets",
            "-n",
            "shop",
            "-o",
            "name",
            f"--server=https://127.0.0.1:{port.address[1]}",
            f"--token={TOKEN}",
            f"--certificate-authority={authority.certificate}",
        )
        assert (code, printed.strip()) == (0, "secret/key")
    finally:
        await port.close()
