"""The files for mutual TLS come from the settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fairlead_ingest.io.service_tls import tls_of
from fairlead_messaging.client.io.connections import Tls


def settings(security: str) -> Any:
    return SimpleNamespace(security=security, tls_ca="ca.pem", tls_cert="cert.pem", tls_key="key.pem")


def test_a_job_shows_its_certificate_with_mutual_tls_alone():
    assert tls_of(settings("insecure-loopback")) is None
    assert tls_of(settings("mtls")) == Tls(ca="ca.pem", cert="cert.pem", key="key.pem")
