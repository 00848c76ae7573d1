"""The files for mutual TLS with the messaging service, from the settings."""

from __future__ import annotations

from fairlead_ingest.settings import IngestSettings
from fairlead_messaging.client.io.connections import Tls


def tls_of(settings: IngestSettings) -> Tls | None:
    """The files for mutual TLS, None without TLS."""
    if settings.security != "mtls":
        return None
    assert settings.tls_ca and settings.tls_cert and settings.tls_key
    return Tls(ca=settings.tls_ca, cert=settings.tls_cert, key=settings.tls_key)
