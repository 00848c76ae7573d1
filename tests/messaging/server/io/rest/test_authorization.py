"""Who may ask what, over mutual TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.edges.upstream import until
from tests.support.joining.pki import Authority
from tests.support.kube.token_reviews import token, token_reviews
from tests.support.topics.messaging import EVERY_ROUTE, Topics, b64
from tests.support.topics.messaging_access import ADMINISTRATOR, Guarded, entry, guarded
from yarl import URL

from fairlead_messaging.api.routes import ARROW_POLL, HEALTH_ROUTES, ROUTES, ApiRoute
from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server import settings
from fairlead_messaging.server.io.access_control import CLOSING_SECONDS
from fairlead_messaging.server.io.rest.routes import _HANDLERS
from fairlead_messaging.server.settings import AccessModel

TOPIC = "/namespaces/default/topics/t"


async def statuses(folder: Path, *names: str, **keys: Any) -> list[int]:
    """What each certificate is answered for making a topic, and for deleting it."""
    async with guarded(folder, **keys) as service:
        return [await service.status(name, method, TOPIC) for name in names for method in ("PUT", "DELETE")]


async def test_a_nodes_certificate_does_not_open_messaging(tmp_path: Path) -> None:
    """Nodes go through the hub, which stamps their name and knows their topics; one authority may sign both."""
    assert await statuses(tmp_path / "a", "administrator", "edge-1", "hubs") == [200, 200, 403, 403, 403, 403]
    assert await statuses(tmp_path / "b", "administrator", access=[]) == [403, 403]


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
async def test_without_tls_no_web_page_may_ask(topics: Topics, headers: dict[str, str]) -> None:
    """A browser on this machine reaches loopback for any page that is open in it."""
    asked = await topics.ask("POST", "topics/t/publish", b'{"messages":["YQ=="]}', headers=headers)
    assert (asked.status, asked.code) == (403, "forbidden")
    assert (await topics.poll("t")).payloads == []


@pytest.mark.parametrize("call", ["poll", "plan"])
async def test_a_grant_that_is_taken_counts_for_who_waits(tmp_path: Path, call: str) -> None:
    """What is published afterwards is not given; one whose grant stays is answered."""
    async with guarded(tmp_path, entry("gone", "consume", "*"), entry("stays", "consume", "*")) as service:
        await service.create("default/t")
        waiting = [
            asyncio.create_task(service.ask(name, "POST", f"{TOPIC}/{call}", {"wait_ms": 20_000}))
            for name in ("gone", "stays")
        ]
        await until(lambda: service.broker.notifier.waiting == 2)
        left = [ADMINISTRATOR, entry("stays", "consume", "*")]
        service.access.replace(settings.access_table([AccessModel.model_validate(each) for each in left]))
        assert (await service.publish("administrator", "default/t", "secret")).status == 200
        gone, stays = await asyncio.gather(*waiting)
        assert (gone.status, stays.status) == (403, 200) and stays.body


def test_no_route_is_without_a_verb() -> None:
    """A new call is granted to no one by accident; each handler belongs to one route, by which it is found."""
    for route in (*ROUTES, ARROW_POLL):
        assert route.is_open != bool(route.verbs), route.operation
    assert len(set(_HANDLERS.values())) == len(_HANDLERS)
    assert set(_HANDLERS) == set(EVERY_ROUTE)
    assert not any(route.verbs for route in HEALTH_ROUTES)  # on a port of their own, or on loopback


ASKED = [route for route in ROUTES if "{topic}" in route.path]
NAMES = {"namespace": "default", "topic": "t", "reader": "r", "subscription": "s"}


@pytest.mark.parametrize("route", ASKED, ids=lambda route: str(route.operation))
async def test_each_call_on_a_topic_needs_its_verbs_on_that_topic(tmp_path: Path, route: ApiRoute[Any]) -> None:
    needed = set(route.verbs) if route.needs_all else {route.verbs[0]}
    others = [verb for verb in Verb if verb not in route.verbs] if not route.needs_all else [route.verbs[0]]
    entries = [entry("granted", " ".join(needed), "default/t")]
    entries += [entry("elsewhere", " ".join(Verb), "default/u", "defaul/*", "*/tt", "Default/*")]
    entries += [entry("other", " ".join(others), "default/t")] if others else []
    path = route.path.format(**NAMES).removeprefix("/v1")
    async with guarded(tmp_path, *entries) as service:
        await service.create("default/t")
        for name in ("elsewhere", *(["other"] if others else [])):
            refused = await service.ask(name, route.method, path, {})
            assert (refused.status, refused.code) == (403, "forbidden"), name
            assert refused.body["error"]["verb"] in route.verbs
            assert refused.body["error"]["topic"] == "default/t"
            assert refused.body["error"]["verb"] in refused.body["error"]["message"]
            assert "default/t" in refused.body["error"]["message"]
        assert await service.status("granted", route.method, path, {}) != 403


async def test_lists_show_what_one_may_know_of(tmp_path: Path) -> None:
    async with guarded(tmp_path, entry("app", "publish", "shop/a*")) as service:
        await service.create("shop/a1", "shop/b", "billing/a1")
        assert (await service.ask("app", "GET", "/namespaces")).body == ["shop"]
        assert (await service.ask("app", "GET", "/namespaces/shop/topics")).body == ["a1"]
        assert (await service.ask("app", "GET", "/namespaces/billing/topics")).body == []
        assert (await service.ask("administrator", "GET", "/namespaces")).body == ["billing", "shop"]


@pytest.mark.parametrize(
    "path",
    [
        "/namespaces/default/topics/a%2F..%2Fb/publish",
        "/namespaces/default/topics/a%2Fb/publish",
        "/namespaces/default%2Fa/topics/b/publish",
        "/namespaces/default/topics/../topics/b/publish",
        "/namespaces/default//topics/b/publish",
        "/namespaces/default/topics/b/publish/",
        "/namespaces/default/topics/%62/publish",
        "/namespaces/default/topics/b%00/publish",
        "/namespaces/default/topics/B/publish",
        "/namespaces/default/topics/*/publish",
        "/namespaces/default/topics/%2A/publish",
    ],
)
async def test_no_writing_of_a_path_reaches_another_topic(tmp_path: Path, path: str) -> None:
    """Authorization and handler read the same names, those the router decoded."""
    async with guarded(tmp_path, entry("app", "publish consume administer", "default/a")) as service:
        await service.create("default/a", "default/b", "default/B")
        body = {"messages": [b64("x")]}
        url = service.url + "/v1" + path
        await service.ask("app", "GET", "/namespaces")  # makes its session
        async with service.sessions["app"].post(URL(url, encoded=True), json=body) as answer:
            assert answer.status in (400, 403, 404, 405)
        for topic in ("default/b", "default/B"):
            assert (await service.poll("administrator", topic)).body == []


async def test_a_transaction_belongs_to_the_subject_that_began_it(tmp_path: Path) -> None:
    """Pointers can be guessed: they are times."""
    both = [entry(name, "publish consume", "default/*") for name in ("app", "other")]
    async with guarded(tmp_path, *both, entry("ops", "administer", "default/*")) as service:
        await service.create("default/a")
        pointer = await service.start("app")
        assert (await service.publish("app", "default/a", "1", tx=pointer)).status == 200
        assert (await service.publish("other", "default/a", "2", tx=pointer)).status == 403
        for how in ("commit", "abort", "renew", "invalidate"):
            assert await service.status("other", "POST", f"/transactions/{pointer}/{how}", {}) == 403
        assert await service.status("ops", "POST", f"/transactions/{pointer}/commit", {}) == 403
        assert await service.status("app", "POST", f"/transactions/{pointer}/commit", {}) == 200
        second = await service.start("app")
        assert (await service.publish("app", "default/a", "3", tx=second)).status == 200
        assert await service.status("ops", "POST", f"/transactions/{second}/invalidate") == 200
        read = (await service.ask("app", "POST", f"{TOPIC[:-1]}a/poll", {"isolation": "read_committed"})).body
        assert [each["payload"] for each in read] == [b64("1")]


async def test_lists_of_transactions_show_topics_one_may_know_of(tmp_path: Path) -> None:
    async with guarded(tmp_path, entry("app", "publish", "a/*"), entry("other", "publish", "b/*")) as service:
        await service.create("a/t", "b/t")
        pointer = await service.start("app")
        assert (await service.publish("app", "a/t", "1", tx=pointer)).status == 200
        assert [each["transactionWritePointer"] for each in await listed(service, "app")] == [pointer]
        assert await listed(service, "other") == []
        assert [each["topics"][0]["topic"] for each in await listed(service, "administrator")] == ["a/t"]


async def listed(service: Guarded, name: str) -> list[Any]:
    found: list[Any] = (await service.ask(name, "GET", "/transactions")).body
    return found


async def test_dead_letters_go_only_where_one_may_publish(tmp_path: Path) -> None:
    """Else a subscription would write for its maker what the maker may not write."""
    async with guarded(tmp_path, entry("app", "consume administer", "default/a")) as service:
        await service.create("default/a", "system/events")
        path = "/namespaces/default/topics/a/subscriptions/s"
        refused = await service.ask(
            "app", "PUT", path, {"url": "http://127.0.0.1:9/x", "dead_letter_topic": "system/events"}
        )
        assert (refused.status, refused.body["error"]["verb"]) == (403, "publish")
        assert refused.body["error"]["topic"] == "system/events"
        assert await service.status("app", "PUT", path, {"url": "http://127.0.0.1:9/x"}) == 200


async def test_the_description_is_open_and_unknown_paths_are_not(tmp_path: Path) -> None:
    """A subject that is granted nothing does not learn which paths there are."""
    async with guarded(tmp_path) as service:
        assert await service.status("unknown", "GET", "/nothing") == 403
        assert await service.status("administrator", "GET", "/nothing") == 404
        await service.ask("unknown", "GET", "/namespaces")
        async with service.sessions["unknown"].get(service.url + "/openapi.json") as answer:
            assert answer.status == 200


async def test_a_token_opens_what_its_account_is_granted_without_a_certificate(tmp_path: Path) -> None:
    till, other = token("till"), token("other")
    account = entry("serviceaccount:shop:till", "publish", "default/a")
    async with token_reviews(tmp_path / "api") as api:
        api.users = {till: "system:serviceaccount:shop:till", other: "system:serviceaccount:shop:other"}
        review = {"kubeconfig": str(api.kubeconfig)}
        async with guarded(tmp_path / "messaging", account, token_review=review) as service:
            await service.create("default/a")
            shown: dict[str, Any] = {"headers": {"Authorization": f"Bearer {till}"}}
            assert (await service.publish(None, "default/a", "1", **shown)).status == 200
            refused = await service.poll(None, "default/a", **shown)
            assert (refused.status, refused.body["error"]["verb"]) == (403, "consume")
            # The scheme's name is no secret and no case of it another.
            assert (
                await service.publish(None, "default/a", "2", headers={"authorization": f"BEARER {till}"})
            ).status == 200
            assert (await service.poll(None, "default/a", headers={"Authorization": f"Bearer {other}"})).status == 403
            for headers in ({}, {"Authorization": f"Bearer {token('made up')}"}, {"Authorization": "Bearer x"}):
                answer = await service.publish(None, "default/a", "3", headers=headers)
                assert (answer.status, answer.code) == (401, "unauthenticated")
                assert answer.headers["WWW-Authenticate"] == "Bearer"
            # A certificate that would be granted it does not help a token that is not.
            bad: dict[str, Any] = {"headers": {"Authorization": f"Bearer {token('made up')}"}}
            assert (await service.publish("administrator", "default/a", "4", **bad)).status == 401


@pytest.mark.parametrize("subject", ["app", "serviceaccount:shop:till"])
async def test_every_call_without_certificate_and_token_is_refused(tmp_path: Path, subject: str) -> None:
    """In the handshake where no token is taken, with 401 where one is: only the description is open."""
    async with token_reviews(tmp_path / "api") as api:
        review = {"kubeconfig": str(api.kubeconfig)}
        access = [entry(subject, "publish", "*")]
        async with guarded(tmp_path / "messaging", access=access, token_review=review) as service:
            for route in ROUTES:
                path = route.path.format(**NAMES, pointer=1).removeprefix("/v1")
                if subject == "app":
                    with pytest.raises(aiohttp.ClientError):
                        await service.status(None, route.method, path, {})
                elif not route.is_open:
                    assert await service.status(None, route.method, path, {}) == 401, route.operation
            assert not api.asked


async def test_a_certificate_of_another_authority_is_refused_where_none_is_needed(tmp_path: Path) -> None:
    """Optional is not unchecked; nor does one that has ended become none."""
    stranger = Authority(tmp_path / "other").issue("administrator")
    account = entry("serviceaccount:shop:till", "publish", "*")
    async with token_reviews(tmp_path / "api") as api:
        review = {"kubeconfig": str(api.kubeconfig)}
        async with guarded(tmp_path / "messaging", account, token_review=review) as service:
            ended = service.authority.issue("ended", valid=datetime.timedelta(seconds=-1))
            for name, pair in (("stranger", stranger), ("ended", ended)):
                service.show(name, pair)
                with pytest.raises(aiohttp.ClientError):
                    await service.ask(name, "GET", "/namespaces")


async def test_a_kept_connection_ends_with_its_certificate(tmp_path: Path) -> None:
    """Else who keeps one busy is let in for years after it; soon before its end each answer closes the connection."""
    now = time.time()
    async with guarded(tmp_path, entry("app", "consume", "default/a"), wall=lambda: now) as service:
        service.show("app", service.authority.issue("app", valid=datetime.timedelta(hours=1)))
        assert (kept := await service.ask("app", "GET", "/namespaces")).status == 200
        assert "Connection" not in kept.headers
        now += 3600 - CLOSING_SECONDS
        assert (closing := await service.ask("app", "GET", "/namespaces")).status == 200
        assert closing.headers["Connection"] == "close"
        now += CLOSING_SECONDS
        ended = await service.ask("app", "GET", "/namespaces")
        assert (ended.status, ended.code) == (401, "unauthenticated")
        assert ended.headers["Connection"] == "close"


async def test_other_methods_and_tokens_without_end_open_nothing(tmp_path: Path) -> None:
    """HEAD is a GET; what is no token is never asked about; the service goes on."""
    account = entry("serviceaccount:shop:till", "publish", "default/a")
    async with token_reviews(tmp_path / "api") as api:
        review = {"kubeconfig": str(api.kubeconfig)}
        async with guarded(tmp_path / "messaging", account, token_review=review) as service:
            await service.create("default/a")
            for method, allowed in (("HEAD", 200), ("OPTIONS", 405), ("PATCH", 405), ("TRACE", 405)):
                assert await service.status("stranger", method, "/namespaces/default/topics/a") == 403
                assert await service.status(None, method, "/namespaces/default/topics/a") == 401
                assert await service.status("administrator", method, "/namespaces/default/topics/a") == allowed
            for text in (
                "a." * 3000 + "b",
                "a.b." + "c" * 7000 + "\u00e4",
                "..",
                "a.b.c " * 50,
                "x" * 9000,
                "x" * 100_000,
            ):
                headers = {"Authorization": f"Bearer {text}"}
                with contextlib.suppress(aiohttp.ClientError):  # a head that is too long may end the connection
                    assert await service.status(None, "GET", "/namespaces", headers=headers) in (400, 401, 431)
            assert not api.asked
            assert await service.status("administrator", "GET", "/namespaces") == 200
