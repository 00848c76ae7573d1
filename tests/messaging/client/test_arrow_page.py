"""Arrow pages as bulk readers get them."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from fairlead_messaging.client import arrow_page
from fairlead_messaging.client.response import Response
from fairlead_wire.errors import RemoteError


def stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_a_page_is_its_rows_and_where_the_topic_stood() -> None:
    """The latter in headers; without a next position it ends where it began."""
    body = stream(pa.table({"id": [b"1"], "payload": [b"a"]}))
    headers = {"fairlead-next-position": "0b", "fairlead-generation": "3", "fairlead-hidden-messages": "2"}
    page = arrow_page.read("0a", Response(status=200, headers=headers, body=body))
    assert (page.next_position, page.generation, page.hidden) == ("0b", 3, 2)
    assert page.table["payload"].to_pylist() == [b"a"]
    assert arrow_page.read("0a", Response(status=200, headers={}, body=body)).next_position == "0a"


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff" * 100])
def test_what_is_no_arrow_stream_is_not_this_service(body: bytes) -> None:
    """Also a header that is no number."""
    with pytest.raises(RemoteError):
        arrow_page.read("", Response(status=200, headers={}, body=body))
    good = stream(pa.table({"id": [b"1"]}))
    with pytest.raises(RemoteError):
        arrow_page.read("", Response(status=200, headers={"fairlead-generation": "x"}, body=good))
