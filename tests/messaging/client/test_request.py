"""One request as a value; those the service knows are in ``test_requests``."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from fairlead_messaging.api import headers, routes
from fairlead_messaging.api.requests import InspectQuery
from fairlead_messaging.api.responses import Topic
from fairlead_messaging.client import errors, request
from fairlead_messaging.client.request import Response, read_arrow_page
from fairlead_wire.errors import LocalError, RemoteError


def test_a_topic_is_namespace_and_name() -> None:
    """As it is written everywhere."""
    assert request.split("a/b") == ("a", "b")
    for text in ("a", "a/", "/b", ""):
        with pytest.raises(LocalError):
            request.split(text)


def test_a_request_says_which_types_it_sends_and_takes() -> None:
    """A type of content only where there is any."""
    assert request.build_json(routes.NAMESPACES).headers == {"Accept": headers.JSON}
    sent = request.build_empty(routes.UPDATE_TOPIC, "n", "t", body={"ttl": 5})
    assert sent.headers == {"Accept": headers.JSON, "Content-Type": headers.JSON}
    assert (sent.method, sent.path, sent.body) == ("PUT", "/v1/namespaces/n/topics/t/properties", b'{"ttl":5}')


def test_a_query_is_quoted_behind_the_path() -> None:
    """Its values are text of a caller."""
    asked = request.build_json(routes.INSPECT, "n", "t", query=InspectQuery(after="a&b", limit=3))
    assert asked.path == "/v1/namespaces/n/topics/t/inspect?after=a%26b&limit=3"


def test_a_refusal_is_raised_unless_the_request_takes_it() -> None:
    """With ``on_refusal`` it may be a result; other answers are errors in any case."""
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
    """As HTTP has it."""
    response = Response(status=200, headers={"fairlead-service": "s"}, body=b"")
    assert (response.header("Fairlead-Service"), response.header("Retry-After")) == ("s", None)


def test_a_body_of_another_shape_is_not_this_service() -> None:
    """Whatever it is."""
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
    """The latter in headers; without a next position it ends where it began."""
    body = stream(pa.table({"id": [b"1"], "payload": [b"a"]}))
    headers = {"fairlead-next-position": "0b", "fairlead-generation": "3", "fairlead-hidden-messages": "2"}
    page = read_arrow_page("0a", Response(status=200, headers=headers, body=body))
    assert (page.next_position, page.generation, page.hidden) == ("0b", 3, 2)
    assert page.table["payload"].to_pylist() == [b"a"]
    assert read_arrow_page("0a", Response(status=200, headers={}, body=body)).next_position == "0a"


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff" * 100])
def test_what_is_no_arrow_stream_is_not_this_service(body: bytes) -> None:
    """Also a header that is no number."""
    with pytest.raises(RemoteError):
        read_arrow_page("", Response(status=200, headers={}, body=body))
    good = stream(pa.table({"id": [b"1"]}))
    with pytest.raises(RemoteError):
        read_arrow_page("", Response(status=200, headers={"fairlead-generation": "x"}, body=good))
