"""An API server that only answers TokenReviews, and a kubeconfig for it."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.joining.pki import Authority

from fairlead_wire.io import tls

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"


def token(name: str, **claims: Any) -> str:
    """A text that looks like a token; the server below decides by its content."""
    return ".".join(_part({"kid": "1"} if each == 0 else {"sub": name, **claims}) for each in range(2)) + ".c2ln"


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@dataclass
class TokenReviews:
    """``users``: the user of each token.  ``status`` and ``content`` replace a review."""

    kubeconfig: Path
    users: dict[str, str] = field(default_factory=dict)
    audiences: list[str] = field(default_factory=lambda: ["fairlead-messaging"])
    status: int = 200
    content: bytes | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    authorizations: set[str] = field(default_factory=set)

    async def review(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.asked.append(asked)
        self.authorizations.add(request.headers.get("Authorization", ""))
        if self.content is not None:
            return web.Response(body=self.content, status=self.status, content_type="application/json")
        user = self.users.get(asked["spec"]["token"])
        status: dict[str, Any] = {"authenticated": False, "error": "invalid bearer token"}
        if user is not None:
            status = {"authenticated": True, "user": {"username": user}, "audiences": self.audiences}
        return web.json_response({"kind": "TokenReview", "status": status}, status=self.status)


@contextlib.asynccontextmanager
async def token_reviews(folder: Path) -> AsyncIterator[TokenReviews]:
    """A server on its own port while the block runs."""
    authority = Authority(folder, "api server")
    pair = authority.issue("kubernetes", hosts=("127.0.0.1",))
    made = TokenReviews(folder / "kubeconfig")
    app = web.Application()
    app.router.add_post(PATH, made.review)
    server = TestServer(app, host="127.0.0.1")
    files = tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key)
    await server.start_server(ssl=tls.server_context(files, verifies_clients=False))
    (folder / "own-token").write_text("own-token\n")
    made.kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [
                    {
                        "name": "k",
                        "cluster": {
                            "server": str(server.make_url("")).rstrip("/"),
                            "certificate-authority": str(authority.certificate),
                        },
                    }
                ],
                "users": [{"name": "u", "user": {"tokenFile": "own-token"}}],
            }
        )
    )
    try:
        yield made
    finally:
        await server.close()
