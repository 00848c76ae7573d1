"""A store that only accepts credentials of a role, and the service (STS) that issues them for an identity token.

with RoleStore(store, folder) as role:
    environment = role.environment          # what a Pod with a web identity has
    role.control(end=True)                  # all credentials issued so far have expired: ExpiredToken

    program ─▶ STS (TLS, a private authority): AssumeRoleWithWebIdentity ─▶ key, secret, session token
            ─▶ gate (plain, loopback): is that session good? then signed anew ─▶ the real store

The real store of the tests has no sessions.  This is a separate process: a waiting library may hold Python's lock.

python -m tests.support.tables.role_store STS-PORT GATE-PORT STORE-PORT CERTIFICATE KEY
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import hmac
import json
import re
import ssl
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
from aiohttp import web
from tests.support.joining.pki import Authority
from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.tables.object_store import ACCESS_KEY, REGION, SECRET, ObjectStore
from yarl import URL

ROOT: Final = Path(__file__).resolve().parents[3]
READY_SECONDS: Final = 60.0
ROLE: Final = "arn:aws:iam::123456789012:role/fairlead"
CONTROL: Final = "/-/role"
BODY_MAX: Final = 64 * 1024 * 1024
_KEY = re.compile(r"Credential=([^/]+)/")


class RoleStore:
    """`token`: the file with the identity's token, at first `token-1`, which the STS accepts."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._sts, self._gate = free_ports(2)
        authority = Authority(folder / "authority")
        self._authority = authority.certificate
        self._pair = authority.issue("sts", hosts=("127.0.0.1",))
        self.token = folder / "token"
        self.token.write_text("token-1")
        self.url = f"http://127.0.0.1:{self._gate}"
        self._running: Running | None = None

    def __enter__(self) -> Self:
        command = [
            sys.executable, "-m", "tests.support.tables.role_store", str(self._sts), str(self._gate),
            str(self._store.port), str(self._pair.certificate), str(self._pair.key),
        ]  # fmt: skip
        running = self._running = start("role-store", command, self._folder / "role.log", folder=ROOT)

        def up() -> bool:
            running.require_alive()
            return bool(self.control())

        wait_until("the store of the role answers", up, seconds=READY_SECONDS, describe=running.tail)
        return self

    def __exit__(self, *_: object) -> None:
        if self._running is not None:
            self._running.kill()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ROLE_ARN": ROLE,
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(self.token),
            "AWS_ENDPOINT_URL_STS": f"https://127.0.0.1:{self._sts}",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "SSL_CERT_FILE": str(self._authority),
        }

    def control(self, **said: Any) -> dict[str, Any]:
        """`life`: seconds of credentials; `end`: those given so far have ended; `token`: the one that is taken from now
        on; `refuses`: a code that the STS answers to all, "" for none. Answers `given` by token and `ended`, counts."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}{CONTROL}", data=json.dumps(said).encode(), timeout=60) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found


class _Role:
    """The server in the separate process."""

    def __init__(self, store_port: int) -> None:
        self._store = f"127.0.0.1:{store_port}"
        self._life, self._token, self._refuses = 900, "token-1", ""
        self._sessions: dict[str, datetime.datetime] = {}
        self._given: Counter[str] = Counter()
        self._ended = 0

    async def serve(self, sts: int, gate: int, certificate: str, key: str) -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        async with aiohttp.ClientSession(auto_decompress=False) as self._session:
            for port, answer, context in ((sts, self._assume, tls), (gate, self._hand_on, None)):
                app = web.Application(client_max_size=BODY_MAX)
                app.router.add_post(CONTROL, self._control)
                app.router.add_route("*", "/{path:.*}", answer)
                runner = web.AppRunner(app)
                await runner.setup()
                await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
            await asyncio.Event().wait()

    async def _control(self, request: web.Request) -> web.Response:
        said = await request.json()
        self._life = said.get("life", self._life)
        self._token = said.get("token", self._token)
        self._refuses = said.get("refuses", self._refuses)
        if said.get("end"):
            self._sessions = dict.fromkeys(self._sessions, datetime.datetime.now(datetime.UTC))
        return web.json_response({"given": self._given, "ended": self._ended})

    async def _assume(self, request: web.Request) -> web.Response:
        asked = {**request.query, **(await request.post())}
        token = str(asked.get("WebIdentityToken", ""))
        refused = self._refuses or ("" if token == self._token else "InvalidIdentityToken")
        if asked.get("Action") != "AssumeRoleWithWebIdentity" or asked.get("RoleArn") != ROLE:
            refused = "AccessDenied"
        if refused:
            said = f"<Error><Type>Sender</Type><Code>{refused}</Code><Message>No.</Message></Error>"
            status = 403 if refused == "AccessDenied" else 400
            return web.Response(status=status, text=f"<ErrorResponse>{said}</ErrorResponse>", content_type="text/xml")
        self._given[token] += 1
        name = f"ASIA{sum(self._given.values()):012}"
        ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self._life)
        self._sessions[name] = ends
        given = (
            f"<AccessKeyId>{name}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>"
            f"<SessionToken>session-of-{name}</SessionToken><Expiration>{ends:%Y-%m-%dT%H:%M:%SZ}</Expiration>"
        )
        outer = "AssumeRoleWithWebIdentity"
        text = f"<{outer}Response><{outer}Result><Credentials>{given}</Credentials></{outer}Result></{outer}Response>"
        return web.Response(text=text, content_type="text/xml")

    async def _hand_on(self, request: web.Request) -> web.StreamResponse:
        found = _KEY.search(request.headers.get("Authorization", ""))
        name = found[1] if found else ""
        is_session = request.headers.get("x-amz-security-token") == f"session-of-{name}"
        ends = self._sessions.get(name) if is_session else None
        if ends is None or ends <= datetime.datetime.now(datetime.UTC):
            self._ended += ends is not None
            code, status = ("ExpiredToken", 400) if ends is not None else ("InvalidAccessKeyId", 403)
            text = f"<Error><Code>{code}</Code><Message>The provided token has expired.</Message></Error>"
            return web.Response(status=status, text=text, content_type="application/xml")
        body = await request.read()
        headers = {each.lower(): value for each, value in request.headers.items()}
        for each in ("authorization", "x-amz-security-token"):
            headers.pop(each)
        headers["host"] = self._store
        headers["authorization"] = _signature(request.method, request.raw_path, headers)
        address = URL(f"http://{self._store}{request.raw_path}", encoded=True)
        async with self._session.request(
            request.method, address, headers=headers, data=body, allow_redirects=False
        ) as answer:
            content = await answer.read()
            dropped = ("transfer-encoding", "content-length", "connection")
            kept = {each: value for each, value in answer.headers.items() if each.lower() not in dropped}
            if request.method == "HEAD":
                kept["Content-Length"] = answer.headers.get("Content-Length", "0")
            return web.Response(status=answer.status, body=content, headers=kept)


def _signature(method: str, raw_path: str, headers: dict[str, str]) -> str:
    """A signature of version 4 with the key of the real store."""
    path, _, query = raw_path.partition("?")
    pieces = sorted(each if "=" in each else f"{each}=" for each in query.split("&") if each)
    signed = sorted(each for each in headers if each == "host" or each.startswith("x-amz-"))
    lines = "".join(f"{each}:{headers[each].strip()}\n" for each in signed)
    names = ";".join(signed)
    asked = "\n".join([method, path, "&".join(pieces), lines, names, headers["x-amz-content-sha256"]])
    moment = headers["x-amz-date"]
    scope = f"{moment[:8]}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(asked.encode()).hexdigest()])
    key = f"AWS4{SECRET}".encode()
    for each in scope.split("/"):
        key = hmac.new(key, each.encode(), hashlib.sha256).digest()
    made = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={made}"


if __name__ == "__main__":
    asyncio.run(_Role(int(sys.argv[3])).serve(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[4:]))
