"""Life, key and name of certificates."""

from __future__ import annotations

import datetime

import msgspec

from fairlead_cli.doctor.device.certificates import CertificateFiles, judge, judge_one
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
    """Certificate, key, authority."""
    assert levels(FILES) == [("certificate", "ok"), ("certificate.key", "ok"), ("certificate.authority", "ok")]


def test_dates() -> None:
    """Ended is a problem, soon is a warning."""
    ended = msgspec.structs.replace(ONE, not_after=NOW - datetime.timedelta(days=1))
    soon = msgspec.structs.replace(ONE, not_after=NOW + datetime.timedelta(days=3))
    assert judge_one("c", "tls_cert", ended, NOW).level == "problem"
    found = judge_one("c", "tls_cert", soon, NOW)
    assert found.level == "warning" and "valid for 3 more days" in found.message


def test_another_nodes_certificate() -> None:
    """Named, with whose it is."""
    first = next(iter(judge(FILES, "edge-2", NOW)))
    assert first.level == "problem" and "is the one of edge-1, not of edge-2" in first.message


def test_files_that_hold_nothing() -> None:
    """Each with its reason."""
    nothing = CertificateFiles(
        cert_path="tls.crt", ca_path="ca.crt", own=None, authorities=[], own_error="No such file"
    )
    assert levels(nothing) == [("certificate", "problem"), ("certificate.authority", "problem")]
    wrong = msgspec.structs.replace(FILES, mismatch="tls_key is not the key of tls_cert")
    assert ("certificate.key", "problem") in levels(wrong)
