"""Authorities that the hub sends in a session: written where they vouch for it, refused with a line in the log else."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.joining.pki import Authority

from fairlead_edge.io.identity.authorities_keeper import AuthoritiesKeeper
from fairlead_edge.io.identity.identity_files import IdentityFiles
from fairlead_wire import message
from fairlead_wire.identity import authority_bundle

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.process


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


async def test_authorities_that_vouch_for_the_hub_are_written(site: Site) -> None:
    """And said from then on; the same again is no news."""
    both = site.pem(site.new, site.old)
    assert site.keeper.held() == authority_bundle.digest(site.pem(site.old))
    assert await site.keeper.take(site.header, both)
    assert site.files.authorities.read_bytes() == both and site.keeper.held() == authority_bundle.digest(both)
    assert not await site.keeper.take(site.header, site.pem(site.old, site.new))
    assert site.files.authorities.read_bytes() == both
    assert dict(site.keeper.counters) == {"authorities_replaced": 1}


async def test_a_bundle_that_would_lock_the_node_out_is_refused(site: Site) -> None:
    """So is one that is empty, broken or too large, and one of a hub that does not show its certificate."""
    before, new = site.files.authorities.read_bytes(), site.pem(site.new)
    broken = site.pem(site.old, site.new)[:-40]
    for content in (new, b"", b"\xff", broken, site.pem(site.old) * 33):
        assert not await site.keeper.take(site.header, content)
    assert not await site.keeper.take(message.Authorities(), site.pem(site.old, site.new))
    assert site.files.authorities.read_bytes() == before
    assert dict(site.keeper.counters) == {"authorities_refused": 6}


async def test_files_of_others_are_not_written(site: Site, tmp_path: Path) -> None:
    """What they hold is said all the same, so that the hub can count it."""
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


async def test_the_newest_that_was_said_is_written(site: Site) -> None:
    """However many come before the first is written."""
    written = asyncio.Event()
    running = asyncio.create_task(site.keeper.run(written.set))
    third = Authority(site.files.folder.parent / "third", "third")
    site.keeper.told(site.header, site.pem(site.new))
    site.keeper.told(site.header, site.pem(site.old, third))
    await asyncio.wait_for(written.wait(), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert site.files.authorities.read_bytes() == site.pem(site.old, third)
    assert dict(site.keeper.counters) == {"authorities_replaced": 1}


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
