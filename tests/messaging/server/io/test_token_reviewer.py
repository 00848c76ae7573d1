"""Where the Kubernetes API is."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.joining.pki import Authority
from tests.support.kube.token_reviews import TokenReviews, token, token_reviews

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.server.access import Subject
from fairlead_messaging.server.io import token_reviewer
from fairlead_messaging.server.io.token_reviewer import NoApiServer, TokenReviewer


def kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    file = folder / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return str(file)


def test_in_a_pod_its_own_files_say_it(tmp_path: Path) -> None:
    """The token is read at each use: it is replaced every hour."""
    authority = Authority(tmp_path)
    (tmp_path / "token").write_text("first\n")
    found = token_reviewer.find(
        None, {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT_HTTPS": "6443"}, tmp_path
    )
    assert (found.url, found.headers()) == ("https://[fd00::1]:6443", {"Authorization": "Bearer first"})
    (tmp_path / "token").write_text("second\n")
    assert found.headers() == {"Authorization": "Bearer second"}
    authority.certificate.unlink()
    with pytest.raises(NoApiServer, match=r"ca\.crt"):
        token_reviewer.find(None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)


def test_a_kubeconfig_says_it_with_files_or_their_content(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("ops")
    content = {
        f"client-{name}-data": base64.b64encode(path.read_bytes()).decode()
        for name, path in (("certificate", pair.certificate), ("key", pair.key))
    }
    cluster = {"server": "https://api.example:6443/", "certificate-authority": "ca.crt"}
    found = token_reviewer.find(kubeconfig(tmp_path, cluster, content), {})
    assert (found.url, found.headers()) == ("https://api.example:6443", {})
    found = token_reviewer.find(kubeconfig(tmp_path, cluster, {"token": "abc"}), {})
    assert found.headers() == {"Authorization": "Bearer abc"}


@pytest.mark.parametrize(
    ("described", "user", "said"),
    [
        ({"server": "http://api.example"}, {}, "https"),
        ({"server": "https://a", "insecure-skip-tls-verify": True}, {}, "whose certificate is checked"),
        ({}, {}, "names no server"),
        ({"server": "https://a"}, {"exec": {"command": "aws"}}, "not a plugin"),
        ({"server": "https://a", "certificate-authority-data": "%%"}, {}, "cannot be used"),
    ],
)
def test_what_cannot_work_or_is_not_safe_is_refused(
    tmp_path: Path, described: dict[str, Any], user: dict[str, Any], said: str
) -> None:
    with pytest.raises(NoApiServer, match=said):
        token_reviewer.find(kubeconfig(tmp_path, described, user), {})


def test_what_is_no_kubeconfig_is_refused(tmp_path: Path) -> None:
    for content in ("", "[1]", "a: [", "current-context: x"):
        file = tmp_path / "kubeconfig"
        file.write_text(content)
        with pytest.raises(NoApiServer, match="kubeconfig"):
            token_reviewer.find(str(file), {})
    with pytest.raises(NoApiServer, match="missing"):
        token_reviewer.find(str(tmp_path / "missing"), {})


# --- Whose token it is, by an API server's word alone.

TILL, TOKEN = Subject("serviceaccount", "shop:till"), token("till")
USER = "system:serviceaccount:shop:till"


@contextlib.asynccontextmanager
async def reviewing(
    folder: Path, steady: Callable[[], float] = time.monotonic
) -> AsyncIterator[tuple[TokenReviewer, TokenReviews]]:
    async with token_reviews(folder) as api:
        reviewer = TokenReviewer("fairlead-messaging", str(api.kubeconfig), steady=steady)
        await reviewer.start()
        try:
            yield reviewer, api
        finally:
            await reviewer.close()


async def test_the_api_server_says_whose_it_is_once_a_minute(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as (reviewer, api):
        api.users[TOKEN] = USER
        for _ in range(3):
            assert await reviewer.account(TOKEN, "10.0.0.1") == TILL
        assert [each["spec"] for each in api.asked] == [{"token": TOKEN, "audiences": ["fairlead-messaging"]}]
        assert api.authorizations == {"Bearer own-token"}


async def test_a_token_made_for_another_service_opens_nothing(tmp_path: Path) -> None:
    """Nor does one of which the server does not say for whom it is: an older one looks at no audience."""
    async with reviewing(tmp_path) as (reviewer, api):
        for number, audiences in enumerate((["https://kubernetes.default.svc"], [])):
            each = token(str(number))
            api.users[each], api.audiences = USER, audiences
            assert await reviewer.account(each, "10.0.0.1") is None


async def test_unknown_tokens_and_users_that_are_no_account_are_not_valid(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as (reviewer, api):
        person = token("person")
        api.users[person] = "alice"
        assert await reviewer.account(TOKEN, "10.0.0.1") is None
        assert await reviewer.account(person, "10.0.0.1") is None
        assert await reviewer.account("not.a", "10.0.0.1") is None
        assert await reviewer.account("x" * 100_000, "10.0.0.1") is None
        assert len(api.asked) == 2


async def test_many_requests_with_one_token_are_one_review(tmp_path: Path) -> None:
    """A client opens many connections at once; that one of them leaves spoils it for none."""
    async with reviewing(tmp_path) as (reviewer, api):
        api.users[TOKEN] = USER
        asking = [asyncio.create_task(reviewer.account(TOKEN, "10.0.0.1")) for _ in range(50)]
        await asyncio.sleep(0)
        asking[0].cancel()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert found[1:] == [TILL] * 49
        assert len(api.asked) == 1


@pytest.mark.parametrize(
    ("status", "content"),
    [(500, None), (503, None), (403, None), (401, None), (200, b"<html>"), (200, b"{}"), (302, None)],
)
async def test_while_the_api_does_not_say_nothing_is_known_of_new_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int, content: bytes | None
) -> None:
    async with reviewing(tmp_path) as (reviewer, api):
        api.users[TOKEN], api.status, api.content = USER, status, content
        with caplog.at_level(logging.DEBUG), pytest.raises(Unavailable) as caught:
            await reviewer.account(TOKEN, "10.0.0.1")
        assert (caught.value.code, caught.value.status) == ("token_review_unavailable", 503)
        assert "token_review_failed" in caplog.text
        assert TOKEN not in caplog.text + str(caught.value)
        api.status, api.content = 200, None
        assert await reviewer.account(TOKEN, "10.0.0.1") == TILL


async def test_what_it_said_before_counts_while_it_is_away(tmp_path: Path) -> None:
    """Ten minutes; not where it only has too much to do, which a flood could bring about."""
    now = 1000.0
    async with reviewing(tmp_path, lambda: now) as (reviewer, api):
        api.users[TOKEN] = USER
        assert await reviewer.account(TOKEN, "10.0.0.1") == TILL
        now += 120.0
        api.status = 503
        assert await reviewer.account(TOKEN, "10.0.0.1") == TILL
        api.status = 429
        with pytest.raises(Unavailable):
            await reviewer.account(TOKEN, "10.0.0.1")
        api.status = 503
        now += 600.0
        with pytest.raises(Unavailable):
            await reviewer.account(TOKEN, "10.0.0.1")
        assert len(api.asked) == 4


async def test_a_flood_of_made_up_tokens_from_one_address_leaves_room_for_others(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as (reviewer, api):
        api.users[TOKEN] = USER
        flood = [asyncio.create_task(reviewer.account(token(str(each)), "10.0.0.9")) for each in range(500)]
        await asyncio.sleep(0)
        assert await reviewer.account(TOKEN, "10.0.0.1") == TILL
        answers = await asyncio.gather(*flood, return_exceptions=True)
        busy = [each for each in answers if isinstance(each, Unavailable)]
        assert len(busy) == 500 - token_reviewer.PEER_ASKING_MAX
        assert not reviewer._asking and not reviewer._of_peer


async def test_without_a_way_to_the_api_server_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoApiServer, match=r"\[token_review\] kubeconfig"):
        await TokenReviewer("fairlead-messaging").start()
