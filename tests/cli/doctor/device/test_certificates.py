"""Life, key and name of certificates."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from tests.support.joining.pki import Authority

from fairlead_cli.doctor.device import certificates
from fairlead_cli.doctor.device.certificates import CertificateFiles, IdentityFolder, judge, judge_identity, judge_one
from fairlead_edge.io.identity.identity_files import IdentityFiles, Pending
from fairlead_wire.identity.certificate import Certificate

NOW = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)
ONE = Certificate(
    common_name="edge-1", names=(), issuer="authority", not_before=NOW - datetime.timedelta(days=60),
    not_after=NOW + datetime.timedelta(days=30),
)  # fmt: skip
FILES = CertificateFiles(cert_path="tls.crt", ca_path="ca.crt", own=ONE, authorities=[ONE])


def levels(files: CertificateFiles, node: str = "edge-1") -> list[tuple[str, str]]:
    return [(each.check, each.level) for each in judge(files, node, NOW)]


def test_good_files() -> None:
    assert levels(FILES) == [("certificate", "ok"), ("certificate.key", "ok"), ("certificate.authority", "ok")]


def test_dates() -> None:
    ended = msgspec.structs.replace(ONE, not_after=NOW - datetime.timedelta(days=1))
    soon = msgspec.structs.replace(ONE, not_after=NOW + datetime.timedelta(days=3))
    assert judge_one("c", "tls_cert", ended, NOW).level == "problem"
    found = judge_one("c", "tls_cert", soon, NOW)
    assert found.level == "warning" and "valid for 3 more days" in found.message


def test_another_nodes_certificate() -> None:
    first = next(iter(judge(FILES, "edge-2", NOW)))
    assert first.level == "problem" and "is the one of edge-1, not of edge-2" in first.message


def test_files_that_hold_nothing() -> None:
    nothing = CertificateFiles(
        cert_path="tls.crt", ca_path="ca.crt", own=None, authorities=[], own_error="No such file"
    )
    assert levels(nothing) == [("certificate", "problem"), ("certificate.authority", "problem")]
    wrong = msgspec.structs.replace(FILES, mismatch="tls_key does not match tls_cert")
    assert ("certificate.key", "problem") in levels(wrong)


# ---- certificates and keys as they lie on a disk ----


def test_a_pair_of_one_authority(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "a", "first"), Authority(tmp_path / "b", "second")
    pair, foreign = authority.issue("edge-1"), other.issue("edge-1")
    bundle = tmp_path / "both.crt"
    bundle.write_bytes(authority.certificate.read_bytes() + other.certificate.read_bytes())
    found = certificates.read_files(bundle, pair.certificate, pair.key)
    assert found.own is not None and found.own.name == "edge-1" and not found.mismatch
    assert [each.name for each in found.authorities] == ["first", "second"]
    assert "does not match" in certificates.read_files(bundle, pair.certificate, foreign.key).mismatch


def test_what_cannot_be_used(tmp_path: Path) -> None:
    """Said in words; OpenSSL never asks for a password at the terminal."""
    pair = Authority(tmp_path / "a").issue("edge-1")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )
    )
    found = certificates.read_files(tmp_path / "none", pair.certificate, locked)
    assert not found.authorities and found.authorities_error == "No such file or directory"
    assert "an agent has no password for it" in found.mismatch


# ---- what a device joined with, and what its settings name ----


LINK = "/data/identity/node.pem"
JOINED = IdentityFolder(link=LINK, current="node-ab.pem")


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({}, "ok", "node-ab.pem is in use"),
        ({"others": 1}, "ok", "the previous pair is kept until a session has been opened"),
        ({"unfinished": True}, "warning", "a join was started but not finished"),
        ({"current": "", "error": f"{LINK}: No such file"}, "problem", f"{LINK}: No such file"),
    ],
)
def test_the_state_of_the_folder(changes: dict[str, object], level: str, text: str) -> None:
    [found] = judge_identity(msgspec.structs.replace(JOINED, **changes), LINK, LINK)
    assert (found.check, found.level) == ("identity", level) and text in found.message


def test_settings_that_name_other_files() -> None:
    [found] = judge_identity(JOINED, "/etc/tls.crt", LINK)
    assert found.level == "warning" and "the agent does not renew them" in found.message


def test_a_device_that_never_joined() -> None:
    assert list(judge_identity(IdentityFolder(link=LINK), "/etc/tls.crt", "/etc/tls.key")) == []


# ---- the folder as a join left it, finished or not ----


def test_nothing_then_begun_then_joined_then_damaged(tmp_path: Path) -> None:
    files = IdentityFiles.of(tmp_path)
    link = str(files.link)
    assert certificates.read_identity(tmp_path) == IdentityFolder(link=link)
    issued = Authority(tmp_path / "authority").issue("shop-17")
    key = issued.key.read_bytes()
    files.make_folder()
    files.keep_pending(Pending(key=key, request=b"request", purpose="renew"))
    assert not certificates.read_identity(tmp_path).unfinished
    files.keep_pending(Pending(key=key, request=b"request", purpose="join abcdefghij shop-17"))
    assert certificates.read_identity(tmp_path) == IdentityFolder(link=link, unfinished=True)
    pair = files.add(key, issued.certificate.read_bytes())
    files.use(pair)
    files.drop_pending()
    assert certificates.read_identity(tmp_path) == IdentityFolder(link=link, current=pair.path.name)
    pair.path.unlink()
    assert "No such file" in certificates.read_identity(tmp_path).error
