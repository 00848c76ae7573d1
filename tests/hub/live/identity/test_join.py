"""Devices join a real hub beside a real API server, by real sockets and certificates."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.hubs.hub import edge_node, fleet, until
from tests.support.joining import join_client, pki
from tests.support.joining.join_client import certificates, device, join, make_token
from tests.support.joining.join_site import TOKENS, Site, code, running
from tests.support.kube.cluster import Cluster

from fairlead_wire import message
from fairlead_wire.identity import authority_bundle
from fairlead_wire.io import tls
from fairlead_wire.link import codec

EDGE_NODES = "/apis/fairlead.dev/v1alpha1/edgenodes"


async def test_a_device_joins_and_is_served(kube: Cluster, tmp_path: Path) -> None:
    """From the token to the first session, as the command does it: authorities, join, then with the certificate."""
    async with running(Site(kube, tmp_path)) as site:
        kube.apply(edge_node("edge-1"))
        token, key = make_token(kube, node="edge-1"), ec.generate_private_key(ec.SECP256R1())
        status = await site.seen(token.id)
        assert status["url"] == "wss://hub.example:10000"
        async with device(site.url) as peer:
            header, roots = await peer.ask(message.AskAuthorities())
        assert isinstance(header, message.Authorities) and status["pins"] == list(authority_bundle.by_pin(roots))
        answer = await join(site.url, token, roots=roots, node="edge-1", key=key)
        issued = certificates(answer)
        again = await join(site.url, token, roots=roots, node="edge-1", key=key)
        assert certificates(again).certificates == issued.certificates
        other = await join(site.url, token, roots=roots, node="edge-1")
        assert code(other) == "token_used"
        [use] = kube.get(f"{TOKENS}/{token.id}")["status"]["uses"]
        [leaf] = x509.load_pem_x509_certificates(issued.certificates.encode())
        assert use["node"] == "edge-1" and int(use["serial"], 16) == leaf.serial_number
        pair = make_token(kube, pattern="shop-*", uses=2)
        await site.seen(pair.id)
        for name in ("shop-2", "shop-1"):
            certificates(await join(site.url, pair, roots=roots, node=name))
        assert " shop-2, shop-1 " in kube.kubectl("get", "jointokens", pair.id)
        async with fleet(site.hub, "edge-1", context=site.tls(issued, key)) as nodes:
            await until("it is served", nodes["edge-1"].connected.is_set)
        assert site.hub.metric("fairlead_hub_joins_total") == 5
        assert [each["node"] for each in site.hub.events("identity_joined")] == ["edge-1"] * 2 + ["shop-2", "shop-1"]
        assert token.secret not in (tmp_path / "hub.log").read_text()


@pytest.mark.verify
async def test_a_new_device_takes_the_place_of_a_dead_one(kube: Cluster, tmp_path: Path) -> None:
    """The name is taken until a token says that it replaces; then the old identity is cut off, and stays out."""
    async with running(Site(kube, tmp_path)) as site:
        kube.apply(edge_node("edge-1"))
        first, second = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        token = make_token(kube, node="edge-1")
        await site.seen(token.id)
        old = certificates(await join(site.url, token, roots=site.roots, key=first))
        context = site.tls(old, first)
        async with fleet(site.hub, "edge-1", context=context) as nodes:
            await until("the old one is served", nodes["edge-1"].connected.is_set)
            again, replacing = make_token(kube, node="edge-1"), make_token(kube, node="edge-1", replace=True)
            await site.seen(again.id)
            await site.seen(replacing.id)
            assert code(await join(site.url, again, roots=site.roots, key=second)) == "name_taken"
            new = certificates(await join(site.url, replacing, roots=site.roots, key=second))
            await until("the old one is cut", lambda: nodes["edge-1"].figures.refused.get("revoked"))
        async with fleet(site.hub, "edge-1", context=site.tls(new, second)) as nodes:
            await until("the new one is served", nodes["edge-1"].connected.is_set)
        assert kube.get(f"{EDGE_NODES}/edge-1")["spec"]["revoked"]["reason"] == f"replaced by token {replacing.id}"


async def test_without_a_certificate_nothing_else_is_spoken(kube: Cluster, tmp_path: Path) -> None:
    """No session, no frame of one, no other protocol; and a foreign certificate is refused as ever."""
    hello = message.Hello(node="edge-1", agent="x", store_epoch=1, fence=0, bits=0, held=0, root="0")
    async with running(Site(kube, tmp_path)) as site:
        kube.apply(edge_node("edge-1"))
        for frame in (codec.encode(hello), codec.encode(message.Renew(id=1), b"x"), b"noise", b""):
            async with device(site.url) as peer:
                await peer.send(frame)
                assert code(await peer.answer()) == "identity"
                with pytest.raises(join_client.Gone):
                    await peer.answer()
        async with device(site.url, alpn="") as peer:
            assert code(await peer.answer()) == "identity"
        assert not site.hub.events("session_opened")
        foreign = pki.Authority(tmp_path / "foreign").issue("edge-1")
        files = tls.Files(ca=site.internal.certificate, cert=foreign.certificate, key=foreign.key)
        async with fleet(site.hub, "edge-1", context=tls.client_context(files)) as nodes:
            await until("it is refused", lambda: site.hub.events("certificate_refused"))
            assert not nodes["edge-1"].connected.is_set()
