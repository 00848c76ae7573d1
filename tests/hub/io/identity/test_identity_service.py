"""All of it together: settings in, signer, pins and clock watched, outcomes counted."""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.edges.upstream import until
from tests.support.hubs.hub_core import Core
from tests.support.joining import join_client, join_cluster, pki
from tests.support.joining.join_cluster import Api, JoinCluster

from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.io.identity import identity_service
from fairlead_hub.io.identity.authorities import LoadedAuthorities
from fairlead_hub.io.identity.file_signer import FileSigner, SignerFilesError
from fairlead_hub.io.identity.identity_service import IdentityService
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.settings import HubSettings, IdentitySettings
from fairlead_wire import message
from fairlead_wire.identity import authority_bundle, join_token


class Made:
    def __init__(self, folder: Path) -> None:
        self.root = join_cluster.authority_of(folder)
        self.roots = self.root.certificate.read_bytes()
        self.settings = IdentitySettings(ca_cert=str(self.root.certificate), ca_key=str(self.root.key), url="wss://hub")
        kube: Any = Api(JoinCluster())
        self.kube = kube
        self.kube.date = ("", 0.0)
        self.seconds_left, self.may_send, self.counts = 10.0, True, IoCounts()
        self.service = IdentityService(
            self.settings,
            Core("edge-1").hub,
            self.kube,
            signer=FileSigner(self.root.certificate, self.root.key),
            roots=lambda: self.roots,
            issuers=bytes,
            own_certificate=lambda: b"",
            own_chain=lambda: b"",
            trusted_nodes=lambda: [],
            clock=time.monotonic,
            seconds_left=lambda: self.seconds_left,
            may_send=lambda: self.may_send,
            counts=self.counts,
        )

    def refusal(self) -> str:
        found = self.service._may_not_sign()
        return found.code if found is not None else ""


async def test_who_may_sign(tmp_path: Path):
    """Who holds the Lease, and whose clock is the API server's."""
    made = Made(tmp_path)
    assert made.refusal() == ""
    made.seconds_left = 0.0
    assert made.refusal() == "signer_unavailable"
    made.seconds_left, made.may_send = 10.0, False
    assert made.refusal() == "signer_unavailable"
    made.may_send = True
    made.kube.date = ("Tue, 01 Jan 2030 00:00:00 GMT", 1_893_456_000.0 + 301)
    assert made.refusal() == "clock" and made.service.skew == 301
    made.kube.date = ("Tue, 01 Jan 2030 00:00:00 GMT", 1_893_456_000.0 + 299)
    assert made.refusal() == ""


async def test_ids_that_a_stranger_makes_up_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """One line with a count for all of them; a token that exists has its own."""
    made = Made(tmp_path)
    refused = IdentityRefused("token_unknown", "there is no such token")
    token = join_token.make(secrets.token_bytes, ["0" * 64])
    real = join_client.join_token_object(token, node="edge-1")
    real["metadata"]["resourceVersion"] = "1"
    made.service._watch.on_object(msgspec.Raw(msgspec.json.encode(real)))
    for _ in range(50):
        made.service._refused(refused, "", join_token.make(secrets.token_bytes, []).id, "10.0.0.9:1")
        made.service._refused(refused, "", token.id, "10.0.0.9:1")
    assert [record.getMessage() for record in caplog.records].count("identity_refused") == 2


async def test_who_is_turned_away_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """In the same place as the refusals of devices that asked; logged once a minute."""
    made = Made(tmp_path)
    for _ in range(3):
        made.service.joining._refused(message.Refuse(code="identity", reason="no certificate"), "10.0.0.9:1")
    assert made.counts.joins == {"identity": 3}
    assert [record.getMessage() for record in caplog.records].count("identity_refused") == 1


async def test_pins_are_those_of_the_hubs_own_authorities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Read again; more than a token can name are an error that is said, and the pins before stay."""
    monkeypatch.setattr(identity_service, "POLL_SECONDS", 0.0)
    made = Made(tmp_path)
    announced: list[tuple[Any, str]] = []
    monkeypatch.setattr(made.service._watch, "announce", lambda found, url: announced.append((found, url)))
    task = asyncio.create_task(made.service._refresh())

    try:
        await until(lambda: announced)
        assert announced[0] == (tuple(authority_bundle.by_pin(made.roots)), "wss://hub")
        others = [pki.Authority(tmp_path / str(n)).certificate.read_bytes() for n in range(5)]
        made.roots = b"".join(others)
        await asyncio.sleep(0.05)
        made.roots = others[0]
        await until(lambda: announced[-1][0] == tuple(authority_bundle.by_pin(others[0])))
        assert {len(found) for found, _ in announced} == {1}
    finally:
        task.cancel()


def test_the_signer_files_is_made_where_it_is_wanted(tmp_path: Path):
    """Refused where the link would not believe what it signs."""
    internal, edges = pki.Authority(tmp_path / "i", "internal"), pki.Authority(tmp_path / "e", "edges")
    server = internal.issue("hub")

    def settings(**identity: Any) -> HubSettings:
        return HubSettings(
            tls_ca=str(internal.certificate),
            tls_cert=str(server.certificate),
            tls_key=str(server.key),
            identity=IdentitySettings(**identity),
        )

    pair = {"ca_cert": str(edges.certificate), "ca_key": str(edges.key)}
    off, good, bad = settings(), settings(**pair, link_ca=str(edges.certificate)), settings(**pair)
    assert identity_service.file_signer(off.identity, LoadedAuthorities(off)) is None
    found = identity_service.file_signer(good.identity, LoadedAuthorities(good))
    assert found is not None and found.authority.name == "edges"
    with pytest.raises(SignerFilesError, match="link_ca"):
        identity_service.file_signer(bad.identity, LoadedAuthorities(bad))
