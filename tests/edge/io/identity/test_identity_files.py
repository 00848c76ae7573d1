"""The pair in use is whole whatever happens while another is written."""

from __future__ import annotations

import datetime
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.joining.pki import Authority, Pair
from tests.support.kills import identity_steps

from fairlead_edge.io.identity import identity_files
from fairlead_edge.io.identity.identity_files import BadPair, IdentityFiles, IdentityFilesError, Owner, Pending

ROOT = Path(__file__).parents[4]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def files(tmp_path: Path) -> IdentityFiles:
    made = IdentityFiles.of(tmp_path)
    made.make_folder()
    return made


def add(files: IdentityFiles, pair: Pair) -> identity_files.Pair:
    return files.add(pair.key.read_bytes(), pair.certificate.read_bytes())


def names(files: IdentityFiles) -> list[str]:
    return sorted(path.name for path in files.folder.iterdir())


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_pair_is_one_file_behind_a_link(files: IdentityFiles, authority: Authority) -> None:
    """Written beside, then used; OpenSSL reads key and certificate from the link; only the owner reads the file."""
    assert files.current() is None
    first = add(files, authority.issue("shop-17"))
    assert files.current() is None
    files.use(first)
    found = files.current()
    assert found is not None and found.certificate.name == "shop-17"
    assert found.path.name == f"node-{found.certificate.serial}.pem"
    assert (mode(found.path), mode(files.folder)) == (0o600, 0o700)
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(str(files.link), str(files.link))
    assert files.key(found).startswith(b"-----BEGIN PRIVATE KEY-----")
    assert files.chain(found).startswith(b"-----BEGIN CERTIFICATE-----") and b"PRIVATE" not in files.chain(found)


def test_the_old_pair_stays_until_the_new_one_is_confirmed(files: IdentityFiles, authority: Authority) -> None:
    old = add(files, authority.issue("shop-17", valid=datetime.timedelta(days=1)))
    files.use(old)
    files.confirm()
    new = add(files, authority.issue("shop-17"))
    files.use(new)
    assert [each.path for each in files.others()] == [old.path]
    files.use(old)
    assert files.current() == old
    files.use(new)
    (files.folder / f".{old.path.name}.new").write_text("half")
    files.confirm()
    assert files.current() == new
    assert names(files) == sorted([new.path.name, "node.pem"])


def test_nothing_is_removed_while_the_link_leads_nowhere(files: IdentityFiles, authority: Authority) -> None:
    """A pair that was removed by hand, or no link: what is left may be the only one."""
    kept = add(files, authority.issue("shop-17"))
    files.confirm()
    os.symlink("node-ab.pem", files.link)
    files.confirm()
    assert kept.path.exists()
    with pytest.raises(IdentityFilesError, match=r"node-ab\.pem: No such file"):
        files.current()


def test_a_key_of_another_certificate_is_refused(files: IdentityFiles, authority: Authority) -> None:
    one, other = authority.issue("one"), authority.issue("other")
    with pytest.raises(BadPair, match="does not match our key"):
        files.add(one.key.read_bytes(), other.certificate.read_bytes())
    with pytest.raises(BadPair, match="cannot be read"):
        files.add(one.key.read_bytes(), b"no certificate")
    assert names(files) == []


@pytest.mark.parametrize("target", ["/etc/passwd", "../node-ab.pem", "node-.pem", "other.pem"])
def test_a_link_to_somewhere_else_is_not_followed(files: IdentityFiles, target: str) -> None:
    os.symlink(target, files.link)
    with pytest.raises(IdentityFilesError, match="not a pair of this folder"):
        files.current()


def test_a_plain_file_in_place_of_the_link_is_reported(files: IdentityFiles) -> None:
    files.link.write_text("by hand")
    with pytest.raises(IdentityFilesError, match="is not a link"):
        files.current()


def test_authorities_are_whole_or_as_they_were(files: IdentityFiles, authority: Authority) -> None:
    files.write_authorities(authority.certificate.read_bytes())
    good, empty = authority.certificate.read_bytes(), b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    for bad in (b"", b"\xff", empty, good + empty, good[:-40], good * 33, good + b"#" * 200_000):
        with pytest.raises(BadPair, match="authorities cannot be read"):
            files.write_authorities(bad)
    assert files.authorities.read_bytes() == authority.certificate.read_bytes()


def test_what_is_pending_is_found_again(files: IdentityFiles, authority: Authority) -> None:
    key = authority.issue("shop-17").key.read_bytes()
    assert files.pending() is None
    files.keep_pending(Pending(key=key, request=b"0" * 300))
    assert files.pending() == Pending(key=key, request=b"0" * 300)
    path = files.folder / "pending.pem"
    assert mode(path) == 0o600
    path.write_bytes(path.read_bytes()[:-50])
    assert files.pending() is None
    files.drop_pending()
    files.drop_pending()
    assert names(files) == []
    assert "PRIVATE" not in repr(Pending(key=key, request=b""))


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path, authority: Authority) -> None:
    nowhere = IdentityFiles(tmp_path / "missing" / "identity")
    with pytest.raises(IdentityFilesError, match="identity: No such file or directory"):
        nowhere.make_folder()
    with pytest.raises(IdentityFilesError, match=r"authorities\.pem: No such file or directory"):
        nowhere.write_authorities(authority.certificate.read_bytes())
    assert nowhere.current() is None and nowhere.others() == []
    nowhere.confirm()


@pytest.mark.process
def test_killed_at_each_step_the_old_pair_or_the_new_one_is_there(tmp_path: Path, authority: Authority) -> None:
    """SIGKILL before and after every write, rename and flush; the next process ends with the new pair alone."""
    pairs = []
    for name in ("old", "new"):
        issued = authority.issue(name)
        pairs.append(tmp_path / name)
        pairs[-1].write_bytes(issued.key.read_bytes() + issued.certificate.read_bytes())
    place = tmp_path / "lives"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", identity_steps.__name__, str(place), *map(str, pairs)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lives = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lives) > 20 and not lives[-1]["killed"]
    found = [life["found"] for life in lives]
    assert set(found) == {"old", "new"} and found == sorted(found, reverse=True), "old until the link, then new"
    assert {(life["ended"], life["after"], len(life["left"])) for life in lives} == {(0, "new", 2)}, lives


def test_a_folder_that_is_a_link_is_given_to_no_one(tmp_path: Path) -> None:
    """The agent's user could have put it there, before root joins again."""
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "identity").symlink_to(other)
    owner = Owner(user=os.geteuid(), group=os.getegid())
    with pytest.raises(IdentityFilesError, match="identity: "):
        IdentityFiles(tmp_path / "identity", owner=owner).make_folder()
