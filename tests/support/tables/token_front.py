"""A token service (OAuth2, client credentials), and a proxy to a REST catalog that only accepts its tokens.

with RestCatalog(folder) as catalog, TokenFront(catalog.port) as front:
    table_format = tables.of("iceberg", front.catalog(credential_file=...))
    front.end_tokens()          # tokens issued so far are refused from now on
    front.clients["job"] = "another secret"
"""

from __future__ import annotations

import http.client
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qs

from fairlead_ingest.table.catalog import Catalog

TOKENS: Final = "/v1/oauth/tokens"
SCOPES: Final = ("catalog", "PRINCIPAL_ROLE:ALL")
_DROPPED: Final = ("transfer-encoding", "content-length", "connection")
Answer = tuple[int, list[tuple[str, str]], bytes]


class TokenFront:
    """On loopback, threads of this process; `given` counts tokens, `refused` counts requests with an invalid one."""

    def __init__(self, catalog_port: int) -> None:
        self.clients = {"job": "not-a-secret-of-anybody"}
        self.given = self.refused = 0
        self.end_at: list[str] = []
        """Tokens end just before a request whose path has the first of these."""
        self.is_away = False
        """It gives no tokens."""
        self._tokens: set[str] = set()
        self._catalog_port = catalog_port
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                said = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = self.path.partition("?")[0]
                if asked == TOKENS:
                    status, headers, body = front._give(parse_qs(said.decode()))
                else:
                    status, headers, body = front._hand_on(self.command, self.path, dict(self.headers), said)
                self.send_response(status)
                for name, value in [*headers, ("Content-Length", str(len(body)))]:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_HEAD = do_DELETE = _answer

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def catalog(self, **more: Any) -> Catalog:
        return Catalog(**{"type": "rest", "uri": self.url, **more})

    def end_tokens(self) -> None:
        self._tokens.clear()

    def token(self) -> str:
        """A valid token, as if it were issued to another client."""
        self._tokens.add(token := secrets.token_urlsafe())
        return token

    def _give(self, form: dict[str, list[str]]) -> Answer:
        if self.is_away:
            return 503, [], b""
        asked = {key: values[0] for key, values in form.items()}
        if asked.get("grant_type") != "client_credentials":
            return _json(400, {"error": "unsupported_grant_type"})
        secret = asked.get("client_secret", "")
        if not secret or self.clients.get(asked.get("client_id", "")) != secret:
            return _json(401, {"error": "invalid_client", "error_description": f"not the secret: {secret}"})
        if asked.get("scope") not in SCOPES:
            return _json(400, {"error": "invalid_scope", "error_description": "no such scope"})
        self.given += 1
        return _json(200, {"access_token": self.token(), "token_type": "bearer", "expires_in": 3600})

    def _hand_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if self.end_at and method == "POST" and self.end_at[0] in path:
            self.end_at.pop(0)
            self.end_tokens()
        if headers.pop("Authorization", "").removeprefix("Bearer ") not in self._tokens:
            self.refused += 1
            error = {"message": "the token has ended", "type": "NotAuthorizedException", "code": 401}
            return _json(401, {"error": error})
        connection = http.client.HTTPConnection("127.0.0.1", self._catalog_port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _DROPPED]
            return answer.status, kept, answer.read()
        except OSError:
            return 503, [], b""
        finally:
            connection.close()


def _json(status: int, said: dict[str, Any]) -> Answer:
    return status, [("Content-Type", "application/json")], json.dumps(said).encode()
