"""Certificates: their expiry, whether key and node name match, and whether joining is complete.

The private key is read by OpenSSL only.
"""

from __future__ import annotations

import datetime
import re
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead_cli.doctor.examination import Finding, ok, problem, warning
from fairlead_edge.io.identity.identity_files import IdentityFiles, IdentityFilesError
from fairlead_wire.identity import certificate
from fairlead_wire.identity.certificate import Certificate

RENEW = "get a new one before it expires; the agent reloads it without a restart"


class CertificateFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of ``tls_ca``, ``tls_cert`` and ``tls_key``; ``mismatch``: why key and certificate do not match."""

    cert_path: str
    ca_path: str
    own: Certificate | None
    authorities: Sequence[Certificate]
    own_error: str = ""
    authorities_error: str = ""
    mismatch: str = ""


def judge(files: CertificateFiles, node: str, now: datetime.datetime) -> Iterator[Finding]:
    """The node's certificate, its key, and the authorities it trusts."""
    if files.own is None:
        text = f"tls_cert {files.cert_path}: {files.own_error or 'contains no certificate'}"
        yield problem(
            "certificate", text, "set tls_cert to the node's certificate in PEM, readable by the agent's user"
        )
    else:
        yield judge_one("certificate", f"tls_cert {files.cert_path}", files.own, now, name=node)
    if files.mismatch:
        remedy = "set tls_key to the key of this certificate, readable by the agent's user"
        yield problem("certificate.key", files.mismatch, remedy)
    elif files.own is not None:
        yield ok("certificate.key", "tls_key matches tls_cert")
    if not files.authorities:
        text = f"tls_ca {files.ca_path}: {files.authorities_error or 'contains no certificate'}"
        yield problem("certificate.authority", text, "set tls_ca to the hub's certificate authority in PEM")
    for each in files.authorities:
        yield judge_one("certificate.authority", f"tls_ca {files.ca_path}", each, now)


def judge_one(check: str, where: str, one: Certificate, now: datetime.datetime, name: str | None = None) -> Finding:
    """The dates and, if ``name`` is given, whether it is the certificate of this name."""
    if wrong := certificate.unfit(one, now, name):
        remedy = "use the certificate of this node" if one.name != name and name else "replace it, or correct the clock"
        return problem(check, f"{where} {wrong}", remedy)
    days = (one.not_after - now).days
    text = f"{where} ({one.name or 'no name'}) is valid for {days} more days, until {certificate.day(one.not_after)}"
    return warning(check, text, RENEW) if certificate.ends_soon(one, now) else ok(check, text)


FILE_BYTES_MAX: Final = 1024 * 1024
AUTHORITIES_MAX: Final = 50
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
REPLACE_IDENTITY = (
    "join again: fairlead token create --node NODE --replace, then fairlead edge join --force on this device"
)
JOIN = "join "
"""Prefix of the purpose of keys created by a join."""


# ── reading the files ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_files(ca: Path, cert: Path, key: Path) -> CertificateFiles:
    """Errors are returned in the values; nothing is raised."""
    own, own_error = _all(cert)
    authorities, authorities_error = _all(ca)
    return CertificateFiles(
        cert_path=str(cert),
        ca_path=str(ca),
        own=own[0] if own else None,
        own_error=own_error,
        authorities=authorities,
        authorities_error=authorities_error,
        mismatch=_mismatch(cert, key) if own else "",
    )


def _all(path: Path) -> tuple[list[Certificate], str]:
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX)
        return [certificate.read(each) for each in _PEM.findall(text)[:AUTHORITIES_MAX]], ""
    except OSError as error:
        return [], error.strerror or str(error)
    except ValueError as error:
        return [], str(error)


def _mismatch(cert: Path, key: Path) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(str(cert), str(key), password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            return f"tls_key {key} does not match tls_cert {cert}"
        return f"tls_key {key}: {error.reason or error}"
    except (OSError, ValueError) as error:
        return f"tls_key {key}: {getattr(error, 'strerror', '') or error}"
    return ""


def _no_password() -> str:
    """Without this, OpenSSL would prompt at the terminal; an agent has none."""
    raise ValueError("it is encrypted, and an agent has no password for it")


# ── the identity the device joined with ───────────────────────────────────────────────────────────────────────────────


class IdentityFolder(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of ``identity``.  ``current``: the file in use, "" for none; ``error``: why it is unusable."""

    link: str
    current: str = ""
    error: str = ""
    others: int = 0
    unfinished: bool = False
    """There is a key whose join has not brought a certificate yet."""


def judge_identity(identity: IdentityFolder, tls_cert: str, tls_key: str) -> Iterator[Finding]:
    """No finding if the device never joined."""
    if identity.error:
        yield problem("identity", identity.error, REPLACE_IDENTITY)
    elif identity.unfinished:
        text = "a join was started but not finished: a key has no certificate yet"
        yield warning("identity", text, "run the same fairlead edge join again; it resumes where it stopped")
    elif identity.current and {tls_cert, tls_key} != {identity.link}:
        text = (
            f"tls_cert and tls_key are not {identity.link}, the identity that this"
            " device joined with: the agent does not renew them"
        )
        yield warning("identity", text, "set both to that file, unless another program renews the configured files")
    elif identity.current:
        kept = "; the previous pair is kept until a session has been opened" if identity.others else ""
        yield ok("identity", f"{identity.current} is in use{kept}")


# ── reading the identity ──────────────────────────────────────────────────────────────────────────────────────────────


def read_identity(data_dir: Path) -> IdentityFolder:
    """Errors are returned in the values; nothing is raised."""
    files = IdentityFiles.of(data_dir)
    pending = files.pending()
    try:
        current, error = files.current(), ""
    except IdentityFilesError as failure:
        current, error = None, str(failure)
    return IdentityFolder(
        link=str(files.link),
        current=current.path.name if current else "",
        error=error,
        others=len(files.others()),
        unfinished=pending is not None and pending.purpose.startswith(JOIN),
    )
