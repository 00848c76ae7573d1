"""The hub's two sets of authorities: ``link_ca`` for nodes on ``listen``, ``tls_ca`` for all other peers.

    nodes ══ link_ca ══▶ listen      people, probes ══ tls_ca ══▶ http_listen      hub ══ tls_ca ══▶ messaging

Without ``link_ca`` one authority serves both.  Then a program with an internal certificate named like a Node is
accepted as that Node, and a node's certificate is accepted internally.  A warning at startup says so, if anything is
internal.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from fairlead_hub.settings import HubSettings
from fairlead_wire.identity import certificate, join_token
from fairlead_wire.io import logs, tls
from fairlead_wire.validation import listen_address

_log = logs.get("hub.authorities")


class LoadedAuthorities:
    """TLS contexts of both sides, loaded from files.  Raises ``tls.TlsFilesError`` naming the file that is unusable."""

    def __init__(self, settings: HubSettings) -> None:
        assert settings.tls_ca and settings.tls_cert and settings.tls_key
        cert, key = Path(settings.tls_cert), Path(settings.tls_key)
        self.internal_files = tls.Files(ca=Path(settings.tls_ca), cert=cert, key=key)
        self.internal = tls.server_context(self.internal_files, logs_refusals=settings.identity.link_ca is not None)
        joins = settings.identity.signs_with != "off"
        if settings.identity.link_ca is None and not joins:
            self.link_files, self.link = self.internal_files, self.internal
        else:
            link_ca = Path(settings.identity.link_ca or settings.tls_ca)
            ca_setting = "identity.link_ca" if settings.identity.link_ca else "tls_ca"
            self.link_files = tls.Files(ca=link_ca, cert=cert, key=key, ca_setting=ca_setting)
            # The acceptor logs refusals.  A device that joins has no certificate yet.
            self.link = tls.server_context(
                self.link_files,
                logs_refusals=False,
                certificate_is_optional=joins,
                alpn=join_token.ALPN if joins else "",
            )
        for context in {self.internal, self.link}:
            context.num_tickets = 0  # nodes do not resume sessions; two unused tickets each would be sent and kept
        self._say_what_is_unsafe(settings)

    async def keep_loaded(self) -> None:
        """Run until cancelled: replaced files are used from the next handshake on."""
        await tls.keep_loaded(self.internal, self.internal_files)

    async def keep_link_loaded(self) -> None:
        if self.link is not self.internal:
            await tls.keep_loaded(self.link, self.link_files)

    def roots(self) -> bytes:
        """PEM of the authorities by which devices identify this hub, read from the file."""
        return self.internal_files.ca.read_bytes()

    def issuers(self) -> bytes:
        """PEM of the authorities of nodes, read from the file.  Raises ``OSError``."""
        return self.link_files.ca.read_bytes()

    def own_certificate(self) -> bytes:
        """DER of the certificate that nodes see, read from the file.  Raises ``OSError`` or ``ValueError``."""
        return certificate.der(self.internal_files.cert.read_bytes())

    def own_chain(self) -> bytes:
        """PEM of the same certificate and its chain.  Raises ``OSError``."""
        return self.internal_files.cert.read_bytes()

    def trusted_nodes(self) -> list[bytes]:
        """DER of the authorities of nodes that the link trusts now."""
        return tls.newest(self.link).get_ca_certs(binary_form=True)

    def _say_what_is_unsafe(self, settings: HubSettings) -> None:
        host, _ = listen_address.parse(settings.http_listen)
        is_internal = (settings.messaging_url or "").startswith("https://") or not listen_address.is_loopback(host)
        if settings.identity.link_ca is None:
            if is_internal:
                reason = "an internal certificate named like a Node is accepted as that node, and a node's internally"
                _log.warning(
                    "link_ca_missing", reason=reason, remedy="set link_ca to an authority that signs only nodes"
                )
        elif _authorities(self.internal) & _authorities(self.link):
            reason = "tls_ca and link_ca share an authority: its certificates are accepted for nodes and internally"
            _log.warning("authorities_shared", reason=reason, remedy="sign nodes with a separate authority")


def _authorities(context: ssl.SSLContext) -> set[bytes]:
    return set(context.get_ca_certs(binary_form=True))
