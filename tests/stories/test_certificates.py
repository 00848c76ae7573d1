"""A certificate that does not fit is named on both sides: whose, which check, until when; once, not every second."""

from __future__ import annotations

import asyncio
import datetime
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.joining.pki import Authority, Pair
from tests.support.processes import wait_until

from fairlead_hub.io.link.acceptor import LinkAcceptor
from fairlead_wire.io import handshake, logs, tls
from fairlead_wire.log_limiter import LogLimiter

pytestmark = pytest.mark.process

LATE = -datetime.timedelta(minutes=1)
WAIT_SECONDS = 100.0


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the hub's side logs."""
    stream = io.StringIO()
    logs.configure("hub", stream=stream)
    monkeypatch.setattr(handshake, "_limiter", LogLimiter(handshake.LOG_SECONDS))
    yield stream


def events(text: str, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


class Meeting:
    """An agent and a hub's door, each with its certificate."""

    def __init__(self, folder: Path, ours: Authority, theirs: Authority) -> None:
        self.folder, self.ours, self.theirs = folder, ours, theirs
        self.failed: Counter[str] = Counter()
        self.reason = self.log = ""

    async def hold(self, hub: Pair, edge: Pair, *, host: str = "127.0.0.1", attempts: int = 3) -> None:
        """Let the agent try several times; what it says of the link is in ``reason``."""
        files = tls.Files(ca=self.ours.certificate, cert=hub.certificate, key=hub.key)
        context = tls.server_context(files, logs_refusals=False)
        door = LinkAcceptor(lambda _: None, context=context, slots_max=4, seconds_max=10.0, failed=self.failed)
        port = await door.start("127.0.0.1", 0)
        certificates = {"CA": self.ours.certificate, "CERT": edge.certificate, "KEY": edge.key}
        agent = EdgeAgent(
            self.folder, f"wss://{host}:{port}", node="edge-1", SECURITY="mtls",
            LINK_ATTEMPT_SECONDS_MAX="0.05", **{f"TLS_{key}": str(path) for key, path in certificates.items()},
        )  # fmt: skip
        try:
            await asyncio.to_thread(agent.start)
            await asyncio.to_thread(
                wait_until, "several attempts", lambda: self.failed["certificate"] >= attempts, seconds=WAIT_SECONDS
            )
            link = await asyncio.to_thread(
                lambda: agent.get("/v1/status", Authorization=f"Bearer {agent.token()}")[1]["link"]
            )
            self.reason = link["reason"]
            assert agent.running is not None
            self.log = agent.running.log.read_text()
        finally:
            door.close()
            await asyncio.to_thread(agent.kill)


@pytest.fixture
def meeting(tmp_path: Path) -> Meeting:
    return Meeting(tmp_path, Authority(tmp_path / "ours", "ours"), Authority(tmp_path / "theirs", "theirs"))


def until(pair: Pair) -> str:
    from fairlead_wire.identity import certificate

    return certificate.day(certificate.read(pair.certificate.read_bytes()).not_after)


async def test_an_expired_one_of_the_node(meeting: Meeting, log_lines: io.StringIO) -> None:
    """The agent knows by itself, and the hub names the node."""
    hub, edge = meeting.ours.issue("hub", hosts=("127.0.0.1",)), meeting.ours.issue("edge-1", valid=LATE)
    await meeting.hold(hub, edge)
    assert "refused our certificate: it has expired" in meeting.reason and str(edge.certificate) in meeting.reason
    assert f"expired on {until(edge)}" in meeting.reason
    assert len(events(meeting.log, "link_down")) == 1, "the same reason is logged once"
    [unfit] = events(meeting.log, "certificate_unfit")
    assert until(edge) in unfit["reason"]
    [line] = events(log_lines.getvalue(), "certificate_refused")
    assert (line["name"], line["check"]) == ("edge-1", "certificate has expired")
    assert until(edge) in line["reason"] and line["peer"].startswith("127.0.0.1:")


async def test_one_of_another_authority(meeting: Meeting, log_lines: io.StringIO) -> None:
    """Only the hub can know, and the node gets its reason."""
    hub, edge = meeting.ours.issue("hub", hosts=("127.0.0.1",)), meeting.theirs.issue("edge-1")
    await meeting.hold(hub, edge)
    assert "the other side does not trust its authority" in meeting.reason
    assert "issued by theirs" in meeting.reason and until(edge) in meeting.reason
    [line] = events(log_lines.getvalue(), "certificate_refused")
    assert line["name"] == "edge-1" and "issued by theirs" in line["reason"] and "issuer" in line["check"]


async def test_an_expired_one_of_the_hub(meeting: Meeting, log_lines: io.StringIO) -> None:
    """The agent names it, and the hub hears from the node."""
    hub, edge = meeting.ours.issue("hub", hosts=("127.0.0.1",), valid=LATE), meeting.ours.issue("edge-1")
    await meeting.hold(hub, edge)
    assert "the certificate of hub" in meeting.reason and "certificate has expired" in meeting.reason
    assert until(hub) in meeting.reason
    [line] = events(log_lines.getvalue(), "our_certificate_refused")
    assert (line["name"], line["check"]) == ("hub", "it has expired")


async def test_a_hub_under_another_name(meeting: Meeting, log_lines: io.StringIO) -> None:
    """What it is called is beside what was asked for."""
    hub, edge = meeting.ours.issue("hub", hosts=("hub.example",)), meeting.ours.issue("edge-1")
    await meeting.hold(hub, edge)
    assert "for hub.example" in meeting.reason and "127.0.0.1" in meeting.reason


async def test_a_name_that_is_not_the_nodes(meeting: Meeting, log_lines: io.StringIO) -> None:
    """The agent says it at its start, before any hub does."""
    hub, edge = meeting.ours.issue("hub", hosts=("127.0.0.1",), valid=LATE), meeting.ours.issue("edge-7")
    await meeting.hold(hub, edge, attempts=1)
    [unfit] = events(meeting.log, "certificate_unfit")
    assert "is the one of edge-7, not of edge-1" in unfit["reason"]
