"""Sends messages to modules through a hub, and asks for the messages' state."""

from __future__ import annotations

import http.client
import ipaddress
import json
import secrets
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fairlead_wire.errors import text_of
from fairlead_wire.validation import addresses

SECONDS = 40.0
ANSWER_BYTES_MAX = 1024 * 1024
TOKEN_CHARS_MAX = 8192
NOT_FOUND = 404
AGAIN = (429, 503)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAddress:
    """The hub's address, and the credentials for it."""

    url: str
    token_file: Path | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def token(self) -> str:
        """The token.  Raises ``click.UsageError`` if it is not one, or would be sent unencrypted."""
        if self.token_file is None:
            return ""
        try:
            found = self.token_file.read_text(errors="strict").strip()
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--token-file {self.token_file}: {error}") from None
        if not 0 < len(found) <= TOKEN_CHARS_MAX or not found.isascii() or not found.isprintable() or " " in found:
            raise click.UsageError(f"--token-file {self.token_file}: holds no token")
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
            raise click.UsageError(
                f"--token-file: a token is sent over https or to this machine only, not to {self.url}"
            )
        return found

    def context(self) -> ssl.SSLContext | None:
        """The TLS context; None for http.  Raises ``click.UsageError`` for files that cannot be used."""
        if not self.url.startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cafile=str(self.tls_ca) if self.tls_ca is not None else None)
            if self.tls_cert is not None:
                context.load_cert_chain(str(self.tls_cert), str(self.tls_key) if self.tls_key is not None else None)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise click.UsageError(f"--tls-ca, --tls-cert, --tls-key: {error}") from None
        return context


@dataclass(frozen=True, slots=True)
class InputClient:
    """The client for one input of a module on a node."""

    hub: HubAddress
    node: str
    module: str
    input: str

    def send(self, message: bytes, *, ttl: float, key: str | None) -> dict[str, Any]:
        """Send the JSON ``message``; returns the hub's answer.  Raises ``click.ClickException``."""
        named = key or secrets.token_hex(16)
        try:
            found = self._ask("POST", f"?ttl={ttl:g}", message, {"Idempotency-Key": named})
        except _NoAnswer as error:
            raise click.ClickException(
                f"{error}; it may have been accepted: send it again with --idempotency-key {named}"
            ) from None
        assert found is not None
        return found

    def state(self, id: str, *, wait: float) -> dict[str, Any] | None:
        """The state of a message; None if it is unknown."""
        try:
            return self._ask("GET", f"/{id}?wait={wait:g}", None, {})
        except _NoAnswer as error:
            raise click.ClickException(str(error)) from None

    def _ask(self, method: str, rest: str, data: bytes | None, headers: dict[str, str]) -> dict[str, Any] | None:
        quoted = [urllib.parse.quote(each, safe="") for each in (self.node, self.module, self.input)]
        path = "/v1/nodes/{}/inputs/{}/{}/messages".format(*quoted)
        request = urllib.request.Request(f"{self.hub.url}{path}{rest}", data=data, method=method, headers=headers)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if token := self.hub.token():
            request.add_header("Authorization", f"Bearer {token}")
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirect()]
        if (context := self.hub.context()) is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        opener = urllib.request.build_opener(*handlers)
        try:
            with opener.open(request, timeout=SECONDS + 60.0) as answer:
                return _object(self.hub.url, answer.read(ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == NOT_FOUND and method == "GET":
                    return None
                raise click.ClickException(_refusal(self.hub.url, error)) from None
        except urllib.error.URLError as error:
            why = getattr(error.reason, "strerror", None) or error.reason
            hint = addresses.scheme_hint(self.hub.url, error)
            raise click.ClickException(f"the hub at {self.hub.url} does not answer: {why}{hint}") from None
        except (OSError, http.client.HTTPException) as error:
            raise _NoAnswer(f"the hub at {self.hub.url} did not answer: {text_of(error)}") from None


class _NoAnswer(Exception):
    """The request was sent, but the answer was lost."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirects are refused: a hub sends none, and the token must not reach another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _object(url: str, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("state"), str):
        raise click.ClickException(f"{url} is not a hub of this version: there is no state in its answer")
    return found


def _refusal(url: str, error: urllib.error.HTTPError) -> str:
    try:
        refused = json.loads(error.read(ANSWER_BYTES_MAX))["error"]
        code, text = str(refused["code"]), str(refused["message"])
    except (ValueError, RecursionError, KeyError, TypeError, OSError, http.client.HTTPException):
        return f"{url} is not a hub that accepts messages: it answered {error.code}"
    seconds = error.headers["Retry-After"] if error.code in AGAIN else None
    return f"{code}: {text}" + (f" (try again in {seconds} s)" if seconds else "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
