"""Who may send to a node: only with a grant, and an answer is kept only for a moment."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from fairlead_hub.io.cluster.api_error import ApiUnavailable
from fairlead_hub.io.inputs import access_review
from fairlead_hub.io.inputs.access_review import ACCESS_REVIEWS, TOKEN_REVIEWS, AccessDenied, AccessReview, Requester


class Cluster:
    """Tokens it knows, and users who may."""

    def __init__(self) -> None:
        self.users = {"good": {"username": "alice", "groups": ["ops"], "uid": "1", "extra": {"k": ["v"]}}}
        self.may: set[tuple[str, str, str]] = {("alice", "create", "edge-1"), ("fairlead:ops", "get", "edge-1")}
        self.asked: list[str] = []
        self.specs: list[dict[str, Any]] = []
        self.away = False

    async def request(
        self, method: str, path: str, body: Any = None, *, attempts: int = 1, seconds: float | None = None
    ) -> bytes:
        assert (method, attempts) == ("POST", 1) and seconds is not None
        await asyncio.sleep(0)
        self.asked.append(path)
        if self.away:
            raise ApiUnavailable("no answer")
        spec = body["spec"]
        self.specs.append(spec)
        if path == TOKEN_REVIEWS:
            user = self.users.get(spec["token"])
            return msgspec.json.encode({"status": {"authenticated": user is not None, "user": user or {}}})
        assert path == ACCESS_REVIEWS
        asked = spec["resourceAttributes"]
        assert (asked["group"], asked["resource"], asked["subresource"]) == ("fairlead.dev", "edgenodes", "inputs")
        return msgspec.json.encode({"status": {"allowed": (spec["user"], asked["verb"], asked["name"]) in self.may}})


class Bench:
    def __init__(self, *, is_open: bool = False) -> None:
        self.now, self.cluster = 0.0, Cluster()
        self.review = AccessReview(self.cluster, is_open=is_open, clock=lambda: self.now)

    async def denied(self, caller: Requester, verb: Any = "create", node: str = "edge-1") -> tuple[int, str]:
        try:
            await self.review.check(caller, verb, node)
        except AccessDenied as error:
            return error.status, error.code
        return 0, ""


async def test_deny_by_default() -> None:
    """No identity, an unknown one, one without a grant, a grant for another verb or node."""
    bench = Bench()
    assert await bench.denied(Requester()) == (401, "no_identity") and bench.cluster.asked == []
    assert await bench.denied(Requester(token="bad")) == (401, "no_identity")
    assert await bench.denied(Requester(token="good")) == (0, "")
    assert await bench.denied(Requester(token="good"), "get") == (403, "forbidden")
    assert await bench.denied(Requester(token="good"), node="edge-2") == (403, "forbidden")
    assert await bench.denied(Requester(certificate="ops")) == (403, "forbidden")
    assert await bench.denied(Requester(certificate="ops"), "get") == (0, "")
    assert await bench.denied(Requester(certificate="alice")) == (403, "forbidden"), (
        "an authority here names no user there"
    )
    assert bench.cluster.specs[2] | {"resourceAttributes": {}} == {
        "user": "alice", "uid": "1", "groups": ["ops"], "extra": {"k": ["v"]}, "resourceAttributes": {},
    }  # fmt: skip


async def test_a_refusal_is_remembered_for_a_second_alone() -> None:
    """Whoever is refused grants the right, and tries again."""
    bench = Bench()
    bench.cluster.may.clear()
    assert await bench.denied(Requester(token="good")) == (403, "forbidden")
    asked = len(bench.cluster.asked)
    assert await bench.denied(Requester(token="good")) == (403, "forbidden") and len(bench.cluster.asked) == asked
    bench.cluster.may.update(Bench().cluster.may)
    bench.now = access_review.REFUSED_SECONDS
    assert await bench.denied(Requester(token="good")) == (0, "")


async def test_what_was_said_counts_for_ten_seconds() -> None:
    """A grant that is taken back ends then."""
    bench = Bench()
    assert await bench.denied(Requester(token="good")) == (0, "")
    bench.cluster.may.clear()
    asked = len(bench.cluster.asked)
    assert await bench.denied(Requester(token="good")) == (0, "") and len(bench.cluster.asked) == asked
    bench.now = access_review.KNOWN_SECONDS
    assert await bench.denied(Requester(token="good")) == (403, "forbidden")


async def test_where_it_cannot_be_asked_nothing_is_allowed() -> None:
    """The caller comes again."""
    bench = Bench()
    bench.cluster.away = True
    assert await bench.denied(Requester(token="good")) == (503, "access_unknown")
    bench.cluster.away = False
    assert await bench.denied(Requester(token="good")) == (0, "")


async def test_floods_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tokens that are too long, of callers at once, and of what is remembered."""
    bench = Bench()
    assert await bench.denied(Requester(token="x" * 8193)) == (401, "no_identity")
    assert await bench.denied(Requester(certificate="x" * 257)) == (401, "no_identity")
    monkeypatch.setattr(access_review, "WAITING_MAX", 2)
    monkeypatch.setattr(access_review, "KNOWN_MAX", 2)
    asked = [bench.denied(Requester(token="good"), node=f"n{number}") for number in range(5)]
    assert sorted(await asyncio.gather(*asked)) == [(403, "forbidden")] * 2 + [(503, "busy")] * 3
    for number in range(9):
        await bench.denied(Requester(token="good"), node=f"m{number}")
    assert len(bench.review._known) <= 2


async def test_without_security_all_on_the_machine_may() -> None:
    """They may be any node, too."""
    bench = Bench(is_open=True)
    assert await bench.denied(Requester()) == (0, "") and bench.cluster.asked == []
