"""Which certificate signed which.  Imports ``cryptography``: for hubs, and for the agent's child process alone."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm


def is_issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """By this authority: its name, and its signature."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature):
        return False
    return True


def reaches(chain: bytes, authorities: bytes) -> bool:
    """Does the first certificate of ``chain`` lead to one of ``authorities`` (PEM each), also by the others of it?

    Of signatures alone: whether all are valid today is judged in each handshake.  Raises ``ValueError``.
    """
    shown = x509.load_pem_x509_certificates(chain)
    trusted = x509.load_pem_x509_certificates(authorities)
    return _reaches(shown[0], shown[1:], trusted)


def _reaches(
    certificate: x509.Certificate, between: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate]
) -> bool:
    if certificate in trusted or any(is_issued(certificate, each) for each in trusted):
        return True
    # Each of them leads on once, so that a ring ends.
    return any(
        is_issued(certificate, each) and _reaches(each, [*between[:place], *between[place + 1 :]], trusted)
        for place, each in enumerate(between)
    )
