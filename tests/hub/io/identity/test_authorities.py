"""Two authorities: nodes are taken by one, everybody else by the other, whatever names a certificate carries."""

from __future__ import annotations

import asyncio
import logging
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.support.edges.upstream import until
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.joining.pki import Authority

from fairlead_cli.simulated_node import SimulatedNode
from fairlead_hub.io import http
from fairlead_hub.io.identity.authorities import LoadedAuthorities
from fairlead_hub.io.link.link_server import LinkServer
from fairlead_hub.io.messaging.upstream_publisher import UpstreamPublisher
from fairlead_hub.io.ready_loop import ReadyLoop
from fairlead_hub.settings import HubSettings
from fairlead_wire.io import tls


class Pki:
    """Authorities "internal" and "edge", and the hub's settings."""

    def __init__(self, folder: Path) -> None:
        self.internal, self.edge = Authority(folder / "internal", "internal"), Authority(folder / "edge", "edge")
        self._hub = self.internal.issue("hub", hosts=("127.0.0.1",))

    def settings(self, **more: Any) -> HubSettings:
        return HubSettings(
            tls_ca=str(self.internal.certificate),
            tls_cert=str(self._hub.certificate),
            tls_key=str(self._hub.key),
            **more,
        )

    def client(self, authority: Authority, name: str) -> Any:
        pair = authority.issue(name)
        return tls.client_context(tls.Files(ca=self.internal.certificate, cert=pair.certificate, key=pair.key))


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


def _opened_or_refused(server: LinkServer, node: SimulatedNode) -> bool:
    return node.connected.is_set() or server.counts.openings_failed.total() > 0


async def nodes_taken(pki: Pki, authorities: LoadedAuthorities) -> set[str]:
    """Which of two machines that say to be edge-1 the link takes: by which authority signed their certificates."""
    taken = set()
    for name, authority in (("internal", pki.internal), ("edge", pki.edge)):
        core = Core("edge-1").rule(CONFIG_MAPS)
        server = LinkServer(
            core.hub, UpstreamPublisher(core.hub, None, window=1), context=authorities.link, on_stale=lambda *_: False
        )
        ReadyLoop(core.hub, server)
        port = await server.start("127.0.0.1", 0)
        node = SimulatedNode("edge-1", f"wss://127.0.0.1:{port}", context=pki.client(authority, "edge-1"))
        task = asyncio.create_task(node.run())
        try:
            await until(partial(_opened_or_refused, server, node))
            taken |= {name} if node.connected.is_set() else set()
        finally:
            task.cancel()
            await server.drain()
    return taken


async def http_opened(pki: Pki, authorities: LoadedAuthorities) -> set[str]:
    """Whose certificate opens ``http_listen``."""
    app = web.Application()
    app.router.add_get("/", _answer)
    runner, port = await http.listen(app, "127.0.0.1", 0, authorities.internal)
    opened = set()
    try:
        for name, authority in (("internal", pki.internal), ("edge", pki.edge)):
            async with aiohttp.ClientSession() as session:
                try:
                    url = f"https://127.0.0.1:{port}/"
                    async with session.get(url, ssl=pki.client(authority, f"client-{name}")) as answer:
                        assert answer.status == 200
                        opened.add(name)
                except (aiohttp.ClientError, OSError):
                    continue
    finally:
        await runner.cleanup()
    return opened


async def _answer(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def test_an_internal_certificate_is_not_a_nodes_and_a_nodes_opens_nothing_internal(pki: Pki) -> None:
    """Although it is named like one."""
    authorities = LoadedAuthorities(pki.settings(identity={"link_ca": str(pki.edge.certificate)}))
    assert await nodes_taken(pki, authorities) == {"edge"}
    assert await http_opened(pki, authorities) == {"internal"}


async def test_without_link_ca_one_authority_does_both(pki: Pki) -> None:
    """As before; what is internal is named by who signed it."""
    authorities = LoadedAuthorities(pki.settings())
    assert authorities.link is authorities.internal
    assert await nodes_taken(pki, authorities) == await http_opened(pki, authorities) == {"internal"}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "fairlead.hub.authorities"]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, []),
        ({"messaging_url": "http://127.0.0.1:1"}, []),
        ({"messaging_url": "https://messaging:1"}, ["link_ca_missing"]),
        ({"http_listen": "0.0.0.0:10002"}, ["link_ca_missing"]),
    ],
)
async def test_what_is_unsafe_without_it_is_said(
    pki: Pki, caplog: pytest.LogCaptureFixture, more: dict[str, Any], expected: list[str]
) -> None:
    with caplog.at_level(logging.WARNING):
        LoadedAuthorities(pki.settings(**more))
    assert warnings(caplog) == expected


async def test_an_authority_in_both_files_is_said(pki: Pki, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The bundle of both, as it was mounted before."""
    both = tmp_path / "both.crt"
    both.write_bytes(pki.internal.certificate.read_bytes() + pki.edge.certificate.read_bytes())
    with caplog.at_level(logging.WARNING):
        LoadedAuthorities(pki.settings(identity={"link_ca": str(both)}))
    assert warnings(caplog) == ["authorities_shared"]


async def test_a_file_that_does_not_work_is_named_by_its_setting(pki: Pki, tmp_path: Path) -> None:
    with pytest.raises(tls.TlsFilesError, match=r"link_ca .*missing"):
        LoadedAuthorities(pki.settings(identity={"link_ca": str(tmp_path / "missing.crt")}))


async def test_a_certificate_is_optional_only_where_devices_join(pki: Pki) -> None:
    """On the link alone, also where one authority signs all; what is internal demands one as ever."""
    pair = {"ca_cert": str(pki.edge.certificate), "ca_key": str(pki.edge.key)}
    for identity, joins in (({}, False), (pair, True), ({**pair, "signer": "off"}, False)):
        made = LoadedAuthorities(pki.settings(identity=identity))
        assert made.internal.verify_mode is ssl.CERT_REQUIRED
        assert made.link.verify_mode is (ssl.CERT_OPTIONAL if joins else ssl.CERT_REQUIRED)
        assert (made.link is made.internal) == (not joins)
    assert made.roots() == pki.internal.certificate.read_bytes()
    assert made.trusted_nodes() == made.internal.get_ca_certs(binary_form=True)
