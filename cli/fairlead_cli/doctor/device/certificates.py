"""How long certificates live, whether the key fits, and whether the name is the node's."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

import msgspec

from fairlead_cli.doctor.finding import Finding, ok, problem, warning
from fairlead_wire.identity import certificate
from fairlead_wire.identity.certificate import Certificate

RENEW = "have a new one issued before it ends; the agent reads it without a restart"


class CertificateFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What ``tls_ca``, ``tls_cert`` and ``tls_key`` hold; ``mismatch``: why key and certificate differ."""

    cert_path: str
    ca_path: str
    own: Certificate | None
    authorities: Sequence[Certificate]
    own_error: str = ""
    authorities_error: str = ""
    mismatch: str = ""


def judge(files: CertificateFiles, node: str, now: datetime.datetime) -> Iterator[Finding]:
    """The node's own certificate, its key, and the authorities it believes."""
    if files.own is None:
        text = f"tls_cert {files.cert_path}: {files.own_error or 'holds no certificate'}"
        yield problem("certificate", text, "name the node's certificate in PEM, readable by the agent's user")
    else:
        yield judge_one("certificate", f"tls_cert {files.cert_path}", files.own, now, name=node)
    if files.mismatch:
        remedy = "name the key that the certificate was made for, readable by the agent's user"
        yield problem("certificate.key", files.mismatch, remedy)
    elif files.own is not None:
        yield ok("certificate.key", "tls_key is the key of tls_cert")
    if not files.authorities:
        text = f"tls_ca {files.ca_path}: {files.authorities_error or 'holds no certificate'}"
        yield problem("certificate.authority", text, "name the file of the hub's authority, in PEM")
    for each in files.authorities:
        yield judge_one("certificate.authority", f"tls_ca {files.ca_path}", each, now)


def judge_one(check: str, where: str, one: Certificate, now: datetime.datetime, name: str | None = None) -> Finding:
    """Dates and, when ``name`` is given, whose it is."""
    if wrong := certificate.unfit(one, now, name):
        remedy = "name the certificate of this node" if one.name != name and name else "replace it, or set the clock"
        return problem(check, f"{where} {wrong}", remedy)
    days = (one.not_after - now).days
    text = f"{where} of {one.name or 'no name'} is valid for {days} more days, until {certificate.day(one.not_after)}"
    return warning(check, text, RENEW) if certificate.ends_soon(one, now) else ok(check, text)
