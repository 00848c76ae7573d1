"""Where the Kubernetes API is and how we show who we are there: the files of the Pod, or a kubeconfig.

Only what asking about tokens needs: a server, its authority, and a token or a certificate.  Files are read again, for
tokens of Pods are replaced every hour.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead_wire.errors import FairleadError

POD_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
FILE_BYTES_MAX: Final = 1024 * 1024


class NoApiServer(FairleadError):
    """It is not known where the API is, or how to show who we are; the text says which file or variable."""


class ApiServer(msgspec.Struct, frozen=True, kw_only=True):
    """``url`` without a slash at the end."""

    url: str
    tls: ssl.SSLContext | None
    token: str = ""
    token_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Raises ``NoApiServer``."""
        token = self.token if self.token_file is None else read(self.token_file).decode("ascii", "replace").strip()
        return {"Authorization": f"Bearer {token}"} if token else {}


def find(kubeconfig: str | None, environ: Mapping[str, str], folder: Path = POD_FOLDER) -> ApiServer:
    """In-cluster when no kubeconfig is given.  Raises ``NoApiServer``."""
    if kubeconfig is not None:
        return _of_kubeconfig(Path(kubeconfig))
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
    if not host:
        raise NoApiServer(
            "entries of [[access]] name ServiceAccounts, whose tokens the Kubernetes API checks, and this is no Pod "
            "(KUBERNETES_SERVICE_HOST is not set): give [token_review] kubeconfig"
        )
    shown = f"[{host}]" if ":" in host else host
    try:
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except (OSError, ssl.SSLError) as error:
        raise NoApiServer(f"{folder / 'ca.crt'}: {error}: mount the ServiceAccount's token into this Pod") from None
    return ApiServer(url=f"https://{shown}:{port}", tls=context, token_file=folder / "token")


def read(path: Path) -> bytes:
    """A small file.  Raises ``NoApiServer``."""
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise NoApiServer(f"{path}: {error.strerror or error}") from None


def _of_kubeconfig(path: Path) -> ApiServer:
    import yaml

    try:
        document = yaml.safe_load(read(path))
    except (yaml.YAMLError, RecursionError) as error:
        raise NoApiServer(f"kubeconfig {path}: {str(error)[:200]}") from None
    try:
        context = _named(document, "contexts", document["current-context"])["context"]
        cluster = _named(document, "clusters", context["cluster"])["cluster"]
        user = _named(document, "users", context["user"])["user"]
        server = str(cluster["server"]).rstrip("/")
    except (KeyError, TypeError, StopIteration):
        raise NoApiServer(f"kubeconfig {path}: its current context names no server, or no user") from None
    if not server.startswith("https://"):
        raise NoApiServer(f"kubeconfig {path}: server must be https://host:port, for tokens are sent there")
    try:
        tls = _tls(cluster, user, path.parent)
    except (OSError, ssl.SSLError, binascii.Error, ValueError) as error:
        raise NoApiServer(f"kubeconfig {path}: its certificates cannot be used: {error}") from None
    file = user.get("tokenFile")
    if user.get("exec") or user.get("auth-provider"):
        raise NoApiServer(f"kubeconfig {path}: give a token, a tokenFile or a certificate, not a plugin")
    return ApiServer(
        url=server, tls=tls, token=str(user.get("token") or ""), token_file=path.parent / file if file else None
    )


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        raise ValueError("insecure-skip-tls-verify: tokens are sent only to a server whose certificate is checked")
    authority = _content(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    certificate, key = _content(user, "client-certificate", folder), _content(user, "client-key", folder)
    if certificate and key:
        with tempfile.NamedTemporaryFile() as both:  # readable by its owner alone, and gone at once
            both.write(certificate + b"\n" + key)
            both.flush()
            context.load_cert_chain(both.name)
    return context


def _content(said: Mapping[str, Any], name: str, folder: Path) -> bytes:
    if data := said.get(f"{name}-data"):
        return base64.b64decode(str(data), validate=True)
    return read(folder / os.path.expanduser(str(said[name]))) if said.get(name) else b""


def _named(document: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(each for each in document[kind] if each["name"] == name)
    return found
