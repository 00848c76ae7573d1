"""Reads the certificates, the authorities and the key that the settings name; the key is given to OpenSSL alone."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Final

from fairlead_cli.doctor.device.certificates import CertificateFiles
from fairlead_wire.identity import certificate
from fairlead_wire.identity.certificate import Certificate

FILE_BYTES_MAX: Final = 1024 * 1024
AUTHORITIES_MAX: Final = 50
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def read(ca: Path, cert: Path, key: Path) -> CertificateFiles:
    """What cannot be read is said in the values; nothing is raised."""
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
            return f"tls_key {key} is not the key of tls_cert {cert}"
        return f"tls_key {key}: {error.reason or error}"
    except (OSError, ValueError) as error:
        return f"tls_key {key}: {getattr(error, 'strerror', '') or error}"
    return ""


def _no_password() -> str:
    """OpenSSL would ask at the terminal, and an agent has none."""
    raise ValueError("it is encrypted, and an agent has no password for it")
