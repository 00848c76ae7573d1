"""Arrow pages as bulk readers get them."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from fairlead_messaging.client.request import Response, read_arrow_page
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
