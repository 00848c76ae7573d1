"""Requests that are refused: 400 or 404 with the reason, never 500, and nothing of them is done."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging import Topics, b64

URL = "http://127.0.0.1:1/hook"
JSON = {"Content-Type": "application/json"}
PRODUCERS: list[object] = [
    {"id": "p", "epoch": 1}, {"id": "p", "epoch": 1, "sequence": 0, "sequences": [0]}, {"epoch": 1, "sequence": 0},
    {"id": "", "epoch": 1, "sequence": 0}, {"id": "p", "epoch": -1, "sequence": 0}, {"id": "p", "sequence": 0},
    {"id": "p", "epoch": 1, "sequence": -1}, {"id": "p", "epoch": 1, "sequences": [0, 1]},
    {"id": "p", "epoch": 1, "sequence": 2**63}, {"id": "x" * 600, "epoch": 1, "sequence": 0}, "p", 1,
]  # fmt: skip
TTLS: list[object] = [0, -1, "", "abc", 2147483648, 1.5, True, None, [], " 5", "+5"]
BODIES: dict[str, list[object]] = {
    "PUT topics/new": [
        *({"ttl": ttl} for ttl in TTLS),
        {"transactional": "maybe"}, b"[1]", b"{", b"\xff", b'"x"', b'{"a": null}', b'{"a": {}}', b'{"a": [1]}',
        b"[" * 5000,
    ],
    "POST topics/t/poll": [
        {"limit": 0}, {"limit": -1}, {"limit": "a"}, {"limit": 2**40}, {"startFrom": -1}, {"startFrom": 1.5},
        {"startFrom": "00" * 19}, {"startFrom": "00" * 21}, {"startFrom": "zz" * 20}, {"startFrom": "0 " * 20},
        {"startFrom": ""}, {"startFrom": 2**70}, {"inclusive": "yes"}, {"isolation": "some"}, {"wait_ms": -1},
        {"transaction": "!!"}, {"transaction": b64("nonsense")}, {"transaction": ""}, {"surprise": 1}, [], 3, "x",
    ],
    "POST topics/t/publish": [
        {"messages": ["not base64"]}, {"messages": [1]}, {"messages": "YQ=="}, {"messages": [{"ttl": 1}]},
        {"messages": []}, {}, {"messages": [], "transactionWritePointer": None}, {"messages": ["YQ=="], "more": 1},
        {"messages": ["YQ=="], "transactionWritePointer": "1"}, [], b"", 1,
        *({"messages": ["YQ==", {"payload": "Yg==", "ttl": ttl}]} for ttl in (0, -1, "x", 1.5, 2147483648)),
        *({"messages": ["YQ=="], "producer": producer} for producer in PRODUCERS),
    ],
    "POST topics/t/store": [{"transactionWritePointer": 1}, {"messages": ["YQ=="]}],
    "POST topics/t/plan": [
        {"after": "zz"}, {"upto": "00"}, {"splits": 0}, {"splits": 10**6}, {"limit_rows": 0}, {"limit_bytes": -1},
        {"wait_ms": -1}, {"surprise": 1}, [],
    ],
    "PUT topics/t/readers/r": [{"position": "zz"}, {}, {"position": 1}],
    "PUT topics/t/readers/a.b": [{"position": ""}],
    "PUT topics/t/subscriptions/a.b": [{"url": URL}],
    "PUT topics/t/subscriptions/s": [
        {"url": "http://h:99999/"}, {"url": "http://h:0/"}, {"url": "http://a b/"},
        {}, {"url": "ftp://x"}, {"url": "http://"}, {"url": 1}, {"url": URL, "more": 1}, [],
        {"url": URL, "delivery": {"minimum_delay": -1}}, {"url": URL, "delivery": {"unknown": 1}},
        {"url": URL, "dead_letter_topic": "noslash"}, {"url": URL, "dead_letter_topic": "a/b c"}, {"url": "http://[x"},
        {"url": "http://" + "x" * 3000},
    ],
    "POST /v1/transactions": [{"timeout": 0}, {"timeout": -1}, {"timeout": 601}, {"timeout": "x"}],
    **{f"POST /v1/transactions/{pointer}/commit": [None] for pointer in ("x", "-1", "1" * 30, "1.5")},
}  # fmt: skip


@pytest.mark.parametrize("call", BODIES)
async def test_a_bad_body_changes_nothing(topics: Topics, call: str) -> None:
    await topics.publish("t", "kept")
    await topics.payloads("t")  # so that the page is cached
    method, path = call.split(" ")
    for body in BODIES[call]:
        answer = await topics.ask(method, path, body, headers=JSON)
        assert answer.status == 400, (body, answer)
    assert await topics.ok("GET", "topics") == ["t"]
    assert await topics.payloads("t") == ["kept"]
    assert await topics.ok("GET", "topics/t/subscriptions") == []


async def test_bad_queries(topics: Topics) -> None:
    for number in ("", "9" * 5000, "9" * 20, "-1", "1e3", "%D9%A3", "x", "NaN"):
        for query in ("offsets?ts=", "inspect?limit="):
            assert (await topics.ask("GET", f"topics/t/{query}{number}")).status == 400, (query, number)
    for path, code in {
        "topics/t/inspect?limit=0": "bad_limit",
        "topics/t/inspect?after=zz": "bad_message_id",
        "/v1/transactions?state=open": "bad_query",
        "/v1/transactions?state=ended&limit=0": "bad_limit",
        "/v1/transactions?limit=x": "bad_limit",
        "/v1/transactions?before=-1": "bad_pointer",
    }.items():
        answer = await topics.ask("GET", path)
        assert (answer.status, answer.code) == (400, code), path


@pytest.mark.parametrize("name", ["a.b", "a:b", "a%20b", "%C3%A9", "a" * 201, "a%2Fb"])
async def test_names_have_letters_digits_underscores_and_hyphens_only(topics: Topics, name: str) -> None:
    for method, path in (
        ("PUT", f"topics/{name}"), ("PUT", f"/v1/namespaces/{name}/topics/t"), ("GET", f"/v1/namespaces/{name}/topics"),
    ):  # fmt: skip
        assert (await topics.ask(method, path)).status == 400, path


async def test_other_content_types(topics: Topics) -> None:
    for verb in ("publish", "store", "poll"):
        answer = await topics.ask("POST", f"topics/t/{verb}", b"{}", headers={"Content-Type": "text/plain"})
        assert (answer.status, answer.code) == (400, "bad_content_type")


async def test_a_missing_topic_is_404(topics: Topics) -> None:
    messages = {"transactionWritePointer": 1, "messages": ["YQ=="]}
    for call, body in {
        "POST publish": messages, "POST store": messages, "POST rollback": {}, "POST poll": {}, "POST plan": {},
        "GET inspect": None, "PUT subscriptions/s": {"url": URL},
    }.items():  # fmt: skip
        method, path = call.split(" ")
        assert (await topics.ask(method, f"topics/nothing/{path}", body)).code == "topic_not_found", call


async def test_everything_wrong_is_said_at_once(topics: Topics) -> None:
    body = {
        "url": "ftp://x", "deliver": {}, "dead_letter_topic": "noslash",
        "delivery": {"minimum_delay": 5, "maximum_delay": 1, "jitter": "ful"},
    }  # fmt: skip
    refused = await topics.ask("PUT", "topics/t/subscriptions/s", body)
    assert (refused.status, refused.code) == (400, "bad_subscription")
    message = refused.body["error"]["message"]
    for part in ("url: ", "deliver: unknown key", "dead_letter_topic must be namespace/name", "delivery.maximum_delay",
                 "delivery.jitter", "did you mean full"):  # fmt: skip
        assert part in message
