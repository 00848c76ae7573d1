"""The API server's address and our credentials, as the ``kubernetes`` package finds them."""

from __future__ import annotations

import os
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs

SERVER_CHARS_MAX = 500
NAME_CHARS_MAX = 253
NAMES_MAX = 20
"""Contexts that an error lists."""
_log = logs.get("hub.kube")


class ConfigError(FairleadError):
    """No usable access to the API server is configured; the message names the file or variable."""


class ApiAccess:
    """The API server's address and credentials."""

    def __init__(
        self,
        server: str,
        headers: Callable[[], Mapping[str, str]],
        *,
        namespace: str = "default",
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        verify: bool = True,
        renew: Callable[[], None] = lambda: None,
        source: str | None = None,
    ) -> None:
        """``renew`` reads the credentials again from their source; it may block and must not raise.

        ``source`` is the file they came from, if any.
        """
        self.server = server.rstrip("/")
        self.headers = headers
        self.renew = renew
        self.namespace = namespace
        self.ca, self.cert, self.key, self.verify = ca, cert, key, verify
        self.source = source

    def stamps(self) -> tuple[object, ...]:
        """Stamps of its files; they differ if a file was replaced or another one is named."""
        found: list[object] = []
        for path in (self.source, self.ca, self.cert, self.key):
            try:
                status = os.stat(path) if path else None
            except OSError:
                status = None
            found += (path, status and (status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)

    def tls(self) -> ssl.SSLContext | None:
        if not self.server.startswith("https://"):
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        return context


def load(kubeconfig: str | None, context: str | None = None) -> ApiAccess:
    """Load from a kubeconfig file, or in-cluster without one; ``context`` defaults to the file's current one.

    Raises ``ConfigError``.
    """
    settings = _configuration(kubeconfig, context)
    if not _is_server(settings.host):
        shown = str(settings.host)[:SERVER_CHARS_MAX]
        raise ConfigError(f"{_where(kubeconfig)}: server must be https://host:port, is {shown!r}")
    namespace = "default" if kubeconfig is not None else _in_cluster_namespace() or "default"

    def renew() -> None:
        # The package reads a kubeconfig's ``tokenFile`` only once.
        nonlocal settings
        try:
            settings = _configuration(kubeconfig, context)
        except ConfigError as error:
            _log.warning("credentials_unreadable", reason=str(error))
            return
        # A certificate embedded in a kubeconfig is written to a new file each time.
        made.ca, made.cert, made.key = settings.ssl_ca_cert, settings.cert_file, settings.key_file
        made.verify = settings.verify_ssl

    def headers() -> Mapping[str, str]:
        # Called every few seconds, because in-cluster tokens are renewed on disk and exec plugins renew theirs.
        token = settings.get_api_key_with_prefix("BearerToken") or settings.get_api_key_with_prefix("authorization")
        if token:
            # Many files end with a newline, and kubectl accepts them.
            return {"Authorization": token.strip()}
        basic = settings.get_basic_auth_token() if settings.username else None
        return {"Authorization": basic} if basic else {}

    made = ApiAccess(
        settings.host,
        headers,
        namespace=namespace,
        ca=settings.ssl_ca_cert,
        cert=settings.cert_file,
        key=settings.key_file,
        verify=settings.verify_ssl,
        renew=renew,
        source=kubeconfig,
    )
    try:
        made.tls()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(f"{_where(kubeconfig)}: its certificates cannot be used: {error}") from None
    return made


def _is_server(address: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _where(kubeconfig: str | None) -> str:
    return f"kubeconfig {kubeconfig}" if kubeconfig else "in-cluster configuration"


def _configuration(kubeconfig: str | None, context: str | None) -> Any:
    from kubernetes import client, config
    from yaml import YAMLError

    settings = client.Configuration()
    try:
        if kubeconfig is not None:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig, context=context, client_configuration=settings
            )
        else:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except (TypeError, AttributeError):  # the file holds text or a list
        raise ConfigError(f"{kubeconfig or _where(kubeconfig)} is not a kubeconfig") from None
    except (config.ConfigException, OSError, ValueError, YAMLError) as error:
        reason = _context_missing(kubeconfig, context) or f": {error}"
        raise ConfigError(f"{_where(kubeconfig)}{reason}") from None
    except RecursionError:
        raise ConfigError(f"{_where(kubeconfig)}: nested too deeply") from None
    return settings


def _context_missing(kubeconfig: str | None, context: str | None) -> str:
    """`has no context west; contexts: …` if that is the reason, else ""."""
    from kubernetes import config
    from yaml import YAMLError

    if kubeconfig is None or context is None:
        return ""
    try:
        found, _ = config.list_kube_config_contexts(kubeconfig)  # type: ignore[no-untyped-call]
        names = [str(each["name"]) for each in found]
    except (config.ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError, YAMLError):
        return ""  # the file has another mistake, which the caller reports
    if context in names:
        return ""
    return f" has no context {context[:NAME_CHARS_MAX]}; contexts: {', '.join(names[:NAMES_MAX]) or 'none'}"


def _in_cluster_namespace() -> str:
    try:
        with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
