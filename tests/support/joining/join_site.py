"""A real hub that admits devices, with its authorities, beside a real API server.

async with running(Site(kube, folder)) as site:
    answer = await join_client.join(site.url, token, roots=site.roots, node="edge-1")
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.support.hubs.hub import HubProcess, until
from tests.support.joining import pki
from tests.support.kube.cluster import Cluster

from fairlead_wire import message
from fairlead_wire.io import tls

TOKENS = "/apis/fairlead.dev/v1alpha1/jointokens"


class Site:
    """A hub that admits devices, and its authorities."""

    def __init__(
        self, kube: Cluster, folder: Path, *, identity: str = "", signer: str = "", beside: Site | None = None
    ) -> None:
        """``signer``: settings in place of those for ``files``; ``beside``: another hub, which has its authorities."""
        self.kube, self.folder = kube, folder
        self.internal: pki.Authority = beside.internal if beside else pki.Authority(folder / "internal", "internal")
        self.edges: pki.Authority = beside.edges if beside else pki.Authority(folder / "edge", "edge")
        server = self.internal.issue("hub", hosts=("127.0.0.1",))
        top = f'tls_ca = "{self.internal.certificate}"\ntls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
        signer = signer or f'ca_cert = "{self.edges.certificate}"\nca_key = "{self.edges.key}"\n'
        toml = f'[identity]\nlink_ca = "{self.edges.certificate}"\nurl = "wss://hub.example:10000"\n{signer}\n'
        toml += f"{identity}\n[record]\nflush_seconds = 0.1\n"
        self.hub = HubProcess(kube, folder, top=top, toml=toml)
        self.hub.config.write_text(self.hub.config.read_text().replace('"insecure"', '"mtls"'))
        self.url = self.hub.url = self.hub.url.replace("ws://", "wss://")
        self.roots = self.internal.certificate.read_bytes()

    async def seen(self, id: str) -> dict[str, Any]:
        """Wait until a hub has completed this token; returns its status."""

        def status() -> Any:
            return self.kube.get(f"{TOKENS}/{id}").get("status", {}).get("pins") and self.kube.get(f"{TOKENS}/{id}")

        found = await until("the hub has seen the token", status)
        return dict(found["status"])

    def tls(self, issued: message.IssuedCertificates, key: Any) -> Any:
        """The context of a node that joined."""
        folder = self.folder / f"node-{abs(hash(issued.certificates))}"
        folder.mkdir()
        certificate, roots = folder / "node.crt", folder / "roots.crt"
        certificate.write_text(issued.certificates)
        roots.write_text(issued.authorities)
        return tls.client_context(tls.Files(ca=roots, cert=certificate, key=pki.write_key(folder / "node.key", key)))


@contextlib.asynccontextmanager
async def running(site: Site) -> AsyncIterator[Site]:
    await asyncio.to_thread(site.hub.start)
    try:
        yield site
    finally:
        assert await asyncio.to_thread(site.hub.stop) == 0
    assert '"traceback"' not in (site.folder / "hub.log").read_text()


def code(answer: tuple[message.ToDevice, bytes]) -> str:
    header = answer[0]
    assert isinstance(header, message.Refuse), header
    return header.code
