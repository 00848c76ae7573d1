"""What goes out about topics, and how an answer is read."""

from __future__ import annotations

import inspect
import io
from typing import Any

import pyarrow as pa
import pytest
from tests.support.topics.answers import answer, asked, refusal

from fairlead_messaging.api import headers, routes
from fairlead_messaging.api.requests import InspectQuery, Producer
from fairlead_messaging.api.responses import Topic
from fairlead_messaging.client import errors, request, requests
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.sync_client import BulkClient, Client
from fairlead_messaging.client.methods import BlockingClient, Method, Methods, on_topic
from fairlead_messaging.client.request import ClientRequest, Response, read_arrow_page
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import LocalError, RemoteError


def test_a_topic_that_exists_is_no_error() -> None:
    assert requests.create_topic("n", "t").read(answer()) is True
    assert requests.create_topic("n", "t").read(refusal(409, "topic_exists")) is False
    with pytest.raises(errors.Denied):
        requests.create_topic("n", "t").read(refusal(400, "bad_name"))


def test_a_deletion_is_done_when_nothing_is_there_after_doubt() -> None:
    requests.delete_topic("n", "t").read(refusal(404, "topic_not_found"), in_doubt=True)
    with pytest.raises(errors.TopicMissing):
        requests.delete_topic("n", "t").read(refusal(404, "topic_not_found"))


# --- What goes out with messages, and how a page is read.


def test_a_publish_says_who_publishes() -> None:
    call = requests.publish("n", "t", [b"\xff"], producer=Producer(id="p", epoch=1, sequences=(4,)), ttl_seconds=5)
    assert asked(call) == {
        "messages": [{"payload": "/w==", "ttl": 5}],
        "producer": {"id": "p", "epoch": 1, "sequences": [4]},
    }
    assert call.headers == {"Accept": "application/json", "Content-Type": "application/json"}


def test_a_producer_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^producer must be Producer\(id=…, epoch=…, sequence=…\), is int$"):
        requests.publish("n", "t", [b"x"], producer=1)  # type: ignore[arg-type]


def test_what_is_safe_to_repeat() -> None:
    numbered = requests.publish("n", "t", [b""], producer=Producer(id="p", epoch=1, sequence=0))
    safe: list[ClientRequest[Any]]
    safe = [
        numbered,
        requests.poll("n", "t"),
        requests.create_topic("n", "t"),
        requests.finish_transaction(1, "commit"),
    ]
    unsafe: list[ClientRequest[Any]] = [
        requests.publish("n", "t", [b""]),
        requests.publish_in(1, "n", "t", [b""]),
        requests.store_in(1, "n", "t", []),
    ]
    stored = requests.publish_in(1, "n", "t", [])
    assert all(call.repeatable for call in [*safe, stored])
    assert not any(call.repeatable for call in unsafe)


def test_a_page_has_a_next_position_or_is_not_ours() -> None:
    call = requests.poll("n", "t")
    page = call.read(answer(body=b'[{"id":"0a","payload":"YQ=="}]', fairlead_next_position="0a"))
    assert (page.messages[0].payload, page.next_position) == (b"a", "0a")
    with pytest.raises(RemoteError):
        call.read(answer(body=b"[]"))
    with pytest.raises(RemoteError):
        call.read(answer(body=b"[1]", fairlead_next_position="0a"))


def test_a_long_poll_takes_its_wait_longer() -> None:
    assert requests.poll("n", "t", wait_ms=1500).wait_seconds == 1.5
    assert requests.plan("n", "t", after="", wait_ms=250).wait_seconds == 0.25


@pytest.mark.parametrize(("how", "state"), [("commit", "committed"), ("abort", "aborted"), ("invalidate", "invalid")])
def test_a_finished_transaction_is_as_good_only_after_doubt(how: Any, state: str) -> None:
    """Another program may have finished it; after a lost answer it was surely we."""
    over = refusal(409, "transaction_not_in_progress", state=state)
    with pytest.raises(errors.TransactionOver):
        requests.finish_transaction(1, how).read(over)
    requests.finish_transaction(1, how).read(over, in_doubt=True)
    requests.finish_transaction(1, how, may_be_done=True).read(over)
    other = refusal(409, "transaction_not_in_progress", state="unknown")
    with pytest.raises(errors.TransactionOver):
        requests.finish_transaction(1, how).read(other, in_doubt=True)


def test_a_deleted_subscription_is_gone_after_doubt() -> None:
    requests.delete_subscription("n", "t", "s").read(refusal(404, "subscription_not_found"), in_doubt=True)
    with pytest.raises(errors.TopicMissing):
        requests.delete_subscription("n", "t", "s").read(refusal(404, "topic_not_found"), in_doubt=True)


def test_only_what_a_person_would_write_is_sent() -> None:
    """Defaults stay the service's, so that they can change there."""
    assert requests._given(DeliveryPolicy()) == {}
    assert requests._given(DeliveryPolicy(minimum_delay=3, jitter="equal")) == {"minimum_delay": 3, "jitter": "equal"}


def test_a_topic_is_namespace_and_name() -> None:
    assert request.split("a/b") == ("a", "b")
    for text in ("a", "a/", "/b", ""):
        with pytest.raises(LocalError):
            request.split(text)


def test_a_request_says_which_types_it_sends_and_takes() -> None:
    assert request.build_json(routes.NAMESPACES).headers == {"Accept": headers.JSON}
    sent = request.build_empty(routes.UPDATE_TOPIC, "n", "t", body={"ttl": 5})
    assert sent.headers == {"Accept": headers.JSON, "Content-Type": headers.JSON}
    assert (sent.method, sent.path, sent.body) == ("PUT", "/v1/namespaces/n/topics/t/properties", b'{"ttl":5}')


def test_a_query_is_quoted_behind_the_path() -> None:
    asked = request.build_json(routes.INSPECT, "n", "t", query=InspectQuery(after="a&b", limit=3))
    assert asked.path == "/v1/namespaces/n/topics/t/inspect?after=a%26b&limit=3"


def test_a_refusal_is_raised_unless_the_request_takes_it() -> None:
    refused = Response(status=404, headers={}, body=b'{"error": {"code": "topic_not_found", "message": "no t"}}')
    plain = request.build_empty(routes.DELETE_TOPIC, "n", "t")
    with pytest.raises(errors.TopicMissing):
        plain.read(refused)
    taken = request.build(
        routes.DELETE_TOPIC, "n", "t", decode=lambda _: "deleted", on_refusal=lambda _, in_doubt: f"doubt: {in_doubt}"
    )
    assert taken.read(refused, in_doubt=True) == "doubt: True"
    assert taken.read(Response(status=200, headers={}, body=b"")) == "deleted"


# --- What came back, before it is read.


def test_a_header_is_found_without_regard_to_case() -> None:
    response = Response(status=200, headers={"fairlead-service": "s"}, body=b"")
    assert (response.header("Fairlead-Service"), response.header("Retry-After")) == ("s", None)


def test_a_body_of_another_shape_is_not_this_service() -> None:
    good = Response(status=200, headers={}, body=b'{"name":"t","properties":{},"new":1}')
    assert good.json(Topic).name == "t"
    for body in (b"", b"{", b"[]", b"\xff", b"[" * 10_000):
        with pytest.raises(RemoteError):
            Response(status=200, headers={}, body=body).json(Topic)


# --- Arrow pages as bulk readers get them.


def stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_a_page_is_its_rows_and_where_the_topic_stood() -> None:
    body = stream(pa.table({"id": [b"1"], "payload": [b"a"]}))
    headers = {"fairlead-next-position": "0b", "fairlead-generation": "3", "fairlead-hidden-messages": "2"}
    page = read_arrow_page("0a", Response(status=200, headers=headers, body=body))
    assert (page.next_position, page.generation, page.hidden) == ("0b", 3, 2)
    assert page.table["payload"].to_pylist() == [b"a"]
    assert read_arrow_page("0a", Response(status=200, headers={}, body=body)).next_position == "0a"


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff" * 100])
def test_what_is_no_arrow_stream_is_not_this_service(body: bytes) -> None:
    with pytest.raises(RemoteError):
        read_arrow_page("", Response(status=200, headers={}, body=body))
    good = stream(pa.table({"id": [b"1"]}))
    with pytest.raises(RemoteError):
        read_arrow_page("", Response(status=200, headers={"fairlead-generation": "x"}, body=good))


# --- The methods of both clients.


CLIENTS = [AsyncClient, Client]


class Recorder(Methods, BlockingClient):
    """Answers what it was asked."""

    def do(self, asked: ClientRequest[Any]) -> Any:
        return asked

    def take(self, step: Any) -> Any:
        return step


@pytest.mark.parametrize("client", CLIENTS)
def test_a_method_has_the_name_the_text_and_the_arguments_of_its_request(client: Any) -> None:
    assert client.publish.__name__ == "publish"
    assert client.publish.__doc__ == requests.publish.__doc__
    assert list(inspect.signature(client.publish).parameters)[:4] == ["self", "namespace", "name", "payloads"]


def test_both_clients_have_every_request() -> None:
    every = {
        name
        for name, function in vars(requests).items()
        if inspect.isfunction(function)
        and function.__module__.startswith(requests.__name__)
        and str(inspect.signature(function).return_annotation).startswith("ClientRequest[")
    }
    every = {name for name in every if not name.startswith("_")}
    assert {"publish", "poll", "plan", "finish_transaction"} <= every
    assert every == {name for name, value in vars(Methods).items() if isinstance(value, Method)}


def test_a_method_sends_its_request() -> None:
    recorder: Any = Recorder()  # its answers are the requests
    assert recorder.topics("n").path == "/v1/namespaces/n/topics"
    assert recorder.poll("n", "t", wait_ms=500).wait_seconds == 0.5


def test_a_topic_may_stand_for_two_names() -> None:
    named = on_topic(requests.plan)
    assert named("n/t", after="").path == requests.plan("n", "t", after="").path
    assert list(inspect.signature(BulkClient.plan).parameters)[:3] == ["self", "topic", "after"]
    with pytest.raises(LocalError):
        named("n", after="")
