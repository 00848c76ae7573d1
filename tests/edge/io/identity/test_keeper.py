"""What the link tells the keeper of the certificate, and what it does then."""

from __future__ import annotations

import asyncio
import datetime
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.joining.pki import Authority

from fairlead_edge.identity.clock import Anchor
from fairlead_edge.io.identity import last_session
from fairlead_edge.io.identity.identity_files import IdentityFiles
from fairlead_edge.io.identity.keeper import AuthoritiesKeeper, IdentityKeeper, open_keeper
from fairlead_edge.io.identity.last_session import LastSession
from fairlead_edge.io.identity.renewer import Renewer
from fairlead_edge.io.link.dialler import LinkUnreachable
from fairlead_edge.io.outbox import store_clock
from fairlead_edge.objects import session_events
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.outbox.age import ClockReading
from fairlead_edge.settings import EdgeSettings
from fairlead_wire import message
from fairlead_wire.identity import authority_bundle
from fairlead_wire.io import handshake, tls

END = session_events.Close(code="certificate", reason="refused")
EXPIRED = handshake.HandshakeFailure(ours=True, whose=None, check="it has expired")
OTHER = handshake.HandshakeFailure(ours=True, whose=None, check="it was revoked")


NOW, DAY = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)


async def no_fence() -> int:
    return 3


class Late:
    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def attempt(self, **facts: Any) -> session_events.Close:
        self.asked.append(facts)
        return session_events.Close(code="renewed_late", reason="")


class Made:
    def __init__(self, folder: Path) -> None:
        self.folder, self.authority = folder, Authority(folder / "edges", "edges")
        self.files = IdentityFiles(folder / "identity")
        self.files.make_folder()
        self.renew(ends=NOW + 30 * DAY)
        self.files.write_authorities(self.authority.certificate.read_bytes())
        link = self.files.link
        self.tls = tls.Files(ca=self.files.authorities, cert=link, key=link)
        self.renewer = Renewer(self.files, node="shop-1", ask=self.never, random=Random())
        self.late = Late()
        self.context = tls.client_context(self.tls)

    def renew(self, *, ends: datetime.datetime) -> str:
        """Another pair, in use from now on; its serial.  What was in use stays beside it."""
        begins = ends - 40 * DAY
        pair = self.authority.issue("shop-1", begins=begins, valid=ends - datetime.datetime.now(datetime.UTC))
        added = self.files.add(pair.key.read_bytes(), pair.certificate.read_bytes())
        self.files.use(added)
        return added.certificate.serial

    def others_gone(self) -> None:
        for other in self.files.others():
            other.path.unlink()

    @property
    def current(self) -> str:
        found = self.files.current()
        assert found is not None
        return found.certificate.serial

    async def never(self, request: bytes) -> Any:
        raise AssertionError

    def keeper(self) -> IdentityKeeper:
        late: Any = self.late
        return IdentityKeeper(data_dir=self.folder, files=self.tls, renewer=self.renewer, late=late, fence=no_fence)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Moves what the store's clock reads."""

    def move(moment: datetime.datetime) -> None:
        seconds = moment.timestamp()
        monkeypatch.setattr(
            store_clock,
            "read",
            lambda: ClockReading(boot_id="two", boot_seconds=9.0, wall_seconds=seconds),
        )

    return move


async def test_a_clock_that_is_not_believed_is_not_used_for_the_next_dial(made: Made, wall: Any) -> None:
    keeper = made.keeper()
    keeper.dialling(made.context)
    assert isinstance(made.context, handshake.HandshakeContext) and made.context.earliest is None
    wall(datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC))
    keeper.dialling(made.context)
    own = made.tls.certificate()
    assert own is not None and made.context.earliest == own.not_before.timestamp()
    assert "1970" in keeper.status().distrust
    wall(datetime.datetime.now(datetime.UTC))
    keeper.dialling(made.context)
    assert made.context.earliest is None and not keeper.status().distrust


async def test_a_session_is_remembered_with_its_store_and_time(made: Made) -> None:
    keeper = made.keeper()
    await keeper.remember(77, {"notBefore": "Nov  1 00:00:00 2026 GMT"})
    found = last_session.read(made.folder)
    assert found is not None and found.store_epoch == 77
    assert abs(found.time.wall_seconds - store_clock.read().wall_seconds) < 3600
    again = made.keeper()
    await again.unreachable(LinkUnreachable("", refused=EXPIRED), made.context, END)
    assert made.late.asked == [{"store_epoch": 77, "fence": 3, "earliest": None}]


async def test_only_a_certificate_that_ended_is_renewed_late(made: Made) -> None:
    keeper = made.keeper()
    for error in (LinkUnreachable("", refused=OTHER), LinkUnreachable("no route"), LinkUnreachable("", hung_up=True)):
        assert await keeper.unreachable(error, made.context, END) is END
    assert not made.late.asked
    end = await keeper.unreachable(LinkUnreachable("", refused=EXPIRED), made.context, END)
    assert end.code == "renewed_late" and made.late.asked[0]["store_epoch"] == 0


async def test_a_renewed_pair_that_ended_unused_is_renewed_late(made: Made) -> None:
    """The session in which it was issued went on until the node was switched off: the pair before it ended first."""
    made.renew(ends=NOW - 40 * DAY)
    made.others_gone()
    newest = made.renew(ends=NOW - 20 * DAY)
    end = await made.keeper().unreachable(LinkUnreachable("", refused=EXPIRED), tls.client_context(made.tls), END)
    assert end.code == "renewed_late" and made.current == newest


async def test_a_pair_taken_back_that_ended_is_renewed_late(made: Made) -> None:
    """The other one was refused for another reason, and would be again."""
    before, keeper = made.renew(ends=NOW - 40 * DAY), made.keeper()
    made.others_gone()
    made.renew(ends=NOW - 20 * DAY)
    assert await keeper.unreachable(LinkUnreachable("", refused=OTHER), tls.client_context(made.tls), END) is END
    assert made.current == before and not made.late.asked
    end = await keeper.unreachable(LinkUnreachable("", refused=EXPIRED), tls.client_context(made.tls), END)
    assert end.code == "renewed_late" and made.current == before


async def test_a_bound_that_was_remembered_counts(made: Made, wall: Any) -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=30)
    anchor = Anchor(wall_seconds=later.timestamp(), boot_id="one", boot_seconds=1.0)
    await asyncio.to_thread(last_session.write, made.folder, LastSession(store_epoch=1, time=anchor))
    wall(datetime.datetime.now(datetime.UTC))
    keeper = made.keeper()
    keeper.dialling(made.context)
    assert isinstance(made.context, handshake.HandshakeContext) and made.context.earliest == anchor.wall_seconds


def test_files_of_others_are_theirs_to_renew(made: Made) -> None:
    def settings(cert: Path) -> EdgeSettings:
        return EdgeSettings(
            node="shop-1", hub_url="wss://hub:10000", data_dir=str(made.folder), tls_ca=str(made.files.authorities),
            tls_cert=str(cert), tls_key=str(cert),
        )  # fmt: skip

    store = MemoryMetastore()
    ours = open_keeper(settings(made.files.link), made.folder, store, agent="1", renew=made.never)
    theirs = open_keeper(settings(made.folder / "edges" / "ca.crt"), made.folder, store, agent="1", renew=made.never)
    assert ours is not None and ours.renewer is not None
    assert theirs is not None and theirs.renewer is None and theirs.status().renewal is None
    assert ours.authorities.held() == theirs.authorities.held() != ""


@pytest.mark.process
async def test_what_the_hub_says_in_a_session_goes_where_it_belongs(made: Made) -> None:
    keeper, before = made.keeper(), made.files.authorities.read_bytes()
    keeper.authorities_received(message.Authorities(renew_after_seconds=50.0), b"")
    left = keeper.status().renewal_in_seconds
    assert left is not None and 0 < left <= 50.0
    assert keeper.status().authorities == authority_bundle.digest(before)
    changed = asyncio.Event()
    keeper.authorities = AuthoritiesKeeper(made.files.authorities, made.files)
    running = asyncio.create_task(keeper.authorities.run(changed.set))
    edges, other = Authority(made.folder / "hub", "hub authority"), Authority(made.folder / "other", "other")
    both = edges.certificate.read_bytes() + other.certificate.read_bytes()
    keeper.authorities_received(message.Authorities(certificates=edges.issue("hub").certificate.read_text()), both)
    await asyncio.wait_for(changed.wait(), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert made.files.authorities.read_bytes() == both
    assert keeper.status().counters[
        "authorities_replaced"
    ] == 1 and keeper.status().authorities == authority_bundle.digest(both)


ROOT = Path(__file__).parents[4]


class Site:
    def __init__(self, folder: Path) -> None:
        self.old, self.new = Authority(folder / "old", "old"), Authority(folder / "new", "new")
        self.files = IdentityFiles(folder / "identity")
        self.files.make_folder()
        self.files.write_authorities(self.pem(self.old))
        self.keeper = AuthoritiesKeeper(self.files.authorities, self.files)
        self.header = message.Authorities(certificates=self.old.issue("hub").certificate.read_text())

    @staticmethod
    def pem(*authorities: Authority) -> bytes:
        return b"".join(each.certificate.read_bytes() for each in authorities)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.process
async def test_authorities_that_vouch_for_the_hub_are_written(site: Site) -> None:
    both = site.pem(site.new, site.old)
    assert site.keeper.held() == authority_bundle.digest(site.pem(site.old))
    assert await site.keeper.take(site.header, both)
    assert site.files.authorities.read_bytes() == both and site.keeper.held() == authority_bundle.digest(both)
    assert not await site.keeper.take(site.header, site.pem(site.old, site.new))
    assert site.files.authorities.read_bytes() == both
    assert dict(site.keeper.counters) == {"authorities_replaced": 1}


@pytest.mark.process
async def test_a_bundle_that_would_lock_the_node_out_is_refused(site: Site) -> None:
    before, new = site.files.authorities.read_bytes(), site.pem(site.new)
    broken = site.pem(site.old, site.new)[:-40]
    for content in (new, b"", b"\xff", broken, site.pem(site.old) * 33):
        assert not await site.keeper.take(site.header, content)
    assert not await site.keeper.take(message.Authorities(), site.pem(site.old, site.new))
    assert site.files.authorities.read_bytes() == before
    assert dict(site.keeper.counters) == {"authorities_refused": 6}


@pytest.mark.process
async def test_files_of_others_are_not_written(site: Site, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.pem"
    theirs.write_bytes(site.pem(site.old))
    keeper = AuthoritiesKeeper(theirs, None)
    assert keeper.held() == authority_bundle.digest(site.pem(site.old))
    assert not await keeper.take(site.header, site.pem(site.old, site.new))
    assert theirs.read_bytes() == site.pem(site.old)
    theirs.write_bytes(b"nonsense")
    assert keeper.held() == ""
    theirs.unlink()
    assert keeper.held() == ""


@pytest.mark.process
async def test_the_newest_that_was_said_is_written(site: Site) -> None:
    written = asyncio.Event()
    running = asyncio.create_task(site.keeper.run(written.set))
    third = Authority(site.files.folder.parent / "third", "third")
    site.keeper.authorities_received(site.header, site.pem(site.new))
    site.keeper.authorities_received(site.header, site.pem(site.old, third))
    await asyncio.wait_for(written.wait(), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert site.files.authorities.read_bytes() == site.pem(site.old, third)
    assert dict(site.keeper.counters) == {"authorities_replaced": 1}


@pytest.mark.process
def test_killed_at_each_step_the_old_or_the_new_authorities_are_there(site: Site, tmp_path: Path) -> None:
    """SIGKILL before and after every flush and rename; the next process writes the new ones."""
    both = tmp_path / "both.pem"
    both.write_bytes(site.pem(site.old, site.new))
    place = tmp_path / "lives"
    place.mkdir()
    program = [sys.executable, "-m", "tests.support.kills.authority_steps"]
    command = [*program, str(place), str(site.old.certificate), str(both)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    lives: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    found = [life["found"] for life in lives]
    assert len(lives) > 5 and not lives[-1]["killed"]
    assert set(found) == {"old", "new"} and found == sorted(found, reverse=True), "old until the rename, then new"
    assert {(life["after"], life["left"]) for life in lives} == {("new", 1)}
