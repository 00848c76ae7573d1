"""The conversation without a certificate: what is learned of the other side, and how it fails."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
from tests.support.join_hub import JoinHub

from fairlead_edge.io.identity import joining
from fairlead_edge.io.identity.joining import HubUnreachable, RefusedByHub
from fairlead_wire import message
from fairlead_wire.identity.pins import ALPN


async def test_what_is_learned_of_a_hub(tmp_path: Path) -> None:
    """Its authorities, its certificate, its clock; the conversation says what it is in the handshake."""
    async with JoinHub(tmp_path) as hub, joining.connected(hub.url, joining.unverified(), agent="0") as found:
        assert await found.authorities() == hub.internal.certificate.read_bytes()
        assert found.hub_certificate() == ssl.PEM_cert_to_DER_cert(hub.own.certificate.read_text())
        theirs = found.hub_time()
        assert theirs is not None
        assert abs(datetime.datetime.now(datetime.UTC) - theirs) < datetime.timedelta(minutes=10)
        assert hub.protocols == [ALPN]


async def test_a_verified_context_believes_one_authority(tmp_path: Path) -> None:
    """The refusal names the certificate."""
    async with JoinHub(tmp_path / "a") as hub, JoinHub(tmp_path / "b") as other:
        context = joining.verified(hub.internal.certificate.read_bytes())
        async with joining.connected(hub.url, context, agent="0") as found:
            await found.authorities()
        with pytest.raises(HubUnreachable) as refused:
            async with joining.connected(other.url, context, agent="0"):
                pass
        assert refused.value.refusal is not None and not refused.value.refusal.ours


async def test_refusals_and_silence_have_names(tmp_path: Path) -> None:
    """The hub's own words; a hub that hangs up."""
    async with JoinHub(tmp_path) as hub:
        hub.answers = [("refuse", "busy", 2.0), ("hang up",)]
        request = message.Join(token_id="a", secret="b", agent="0")
        async with joining.connected(hub.url, joining.unverified(), agent="0") as found:
            with pytest.raises(RefusedByHub, match="busy: so it is") as refused:
                await found.ask(request)
            assert (refused.value.code, refused.value.retry_after) == ("busy", 2.0)
        hub.answers = [("close",)]
        async with joining.connected(hub.url, joining.unverified(), agent="0") as found:
            with pytest.raises(HubUnreachable, match="hung up without an answer"):
                await found.ask(request)
