"""The API server's JSON: one unreadable part costs nothing but itself, and what is no list is never an empty one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.cluster import api_json
from fairlead_hub.cluster.api_json import pack, unpack
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def item(name: str, rest: bytes = b"{}") -> bytes:
    return b'{"metadata":{"name":"%b","uid":"u-%b","resourceVersion":"7"},"spec":%b}' % (
        name.encode(), name.encode(), rest,
    )  # fmt: skip


def listed(*items: bytes) -> bytes:
    return b'{"kind":"List","metadata":{"resourceVersion":"9","continue":"c"},"items":[%b]}' % b",".join(items)


@pytest.mark.parametrize("levels", [300, 1100, 20_000])
def test_an_object_nested_too_deep_leaves_its_list_whole(levels: int) -> None:
    """However deep: the others are there, and the deep one keeps its name."""
    page = api_json.page(listed(item("a"), item("b", deep(levels)), item("c")))
    assert (page.version, page.next) == ("9", "c")
    headers = [api_json.header(raw) for raw in page.items]
    assert [(one.name, one.uid, one.version) for one in headers] == [(n, f"u-{n}", "7") for n in "abc"]
    body, problem = api_json.document(page.items[1])
    assert "200 levels" in problem and body["metadata"]["name"] == "b"


@pytest.mark.parametrize("levels", [1, 1100])
def test_a_watch_line_with_a_deep_object_is_an_event(levels: int) -> None:
    """Its type, its object and its version are known."""
    event = api_json.event(b'{"type":"MODIFIED","object":%b}' % item("a", deep(levels)))
    assert (event.type, api_json.version(event.object)) == ("MODIFIED", "7")


@pytest.mark.parametrize(
    "content",
    [
        b"", b" ", b"<html><body>Bad gateway</body></html>", b"null", b"[]", b'"text"', b"1", b"{}", b'{"metadata":{}}',
        b'{"metadata":{},"items":[]}', b'{"metadata":{"resourceVersion":""},"items":[]}',
        b'{"metadata":{"resourceVersion":"1"}}', b'{"metadata":{"resourceVersion":"1"},"items":{}}',
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}',
        listed(item("a"))[:-5], b"\xff\xfe", b"[" * 5000, deep(5000), b'{"items":[' + deep(3000),
    ],
)  # fmt: skip
def test_what_is_no_list_is_never_an_empty_one(content: bytes) -> None:
    """An empty list means that everything is gone."""
    with pytest.raises(Malformed):
        api_json.page(content)


@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\a1').map(str.encode))
def test_nothing_else_is_raised(content: bytes) -> None:
    """Whatever the bytes are."""
    for read in (api_json.page, api_json.event, api_json.header, api_json.own, api_json.document, api_json.version):
        try:
            read(content)
        except Malformed:
            continue


def test_what_came_instead_is_named_and_not_quoted() -> None:
    """It may be half a Secret."""
    with pytest.raises(Malformed, match="web page"):
        api_json.page(b"<!DOCTYPE html>")
    with pytest.raises(Malformed, match="empty"):
        api_json.page(b"")
    with pytest.raises(Malformed) as caught:
        api_json.page(listed(item("a", b'{"password":"hunter2"}'))[:-4])
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "known"),
    [
        ({"name": "a", "labels": {"x": 1, "y": "2"}}, {"y": "2"}),
        ({"name": "a", "labels": ["x"]}, {}),
        ({"name": "a", "uid": 7, "generation": "x"}, {}),
        ({"name": "a", "annotations": "none", "labels": {"y": "2"}}, {"y": "2"}),
    ],
)
def test_metadata_of_wrong_types_is_read_as_far_as_it_goes(metadata: object, known: dict[str, str]) -> None:
    """And says what was wrong."""
    header = api_json.header(msgspec.json.encode({"metadata": metadata}))
    assert (header.name, header.labels, bool(header.problem)) == ("a", known, True)


@pytest.mark.parametrize("body", [b"{}", b'{"metadata":{"name":3}}', b'{"metadata":{"name":""}}', b'{"metadata":[]}'])
def test_an_object_without_a_name_is_none(body: bytes) -> None:
    with pytest.raises(Malformed):
        api_json.header_of(msgspec.json.decode(body))


def test_of_our_own_documents_odd_parts_count_as_empty() -> None:
    """Their status is written anew; nothing of it may be too deep for those who read on."""
    found = api_json.own(b'{"metadata":{"name":"a"},"spec":[1],"status":%b}' % deep(codec.NESTING_MAX + 50))
    assert found.spec == {} and api_json.own(item("a", b'{"x":1}')).spec == {"x": 1}
    assert codec.nesting(msgspec.json.encode(found.status)) <= codec.NESTING_MAX


def test_brackets_in_texts_do_not_count() -> None:
    """Neither do keys elsewhere that are called like ours."""
    odd = b'{"metadata":{"name":"b","x":{"items":[{}]},"y":"]}\\"items\\":["},"spec":%b}' % deep(1100)
    page = api_json.page(
        b'{"x":"items","y":{"items":[1]},"metadata":{"resourceVersion":"9"},"items":[%b,%b]}' % (odd, odd)
    )
    assert [api_json.header(raw).name for raw in page.items] == ["b", "b"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(json_values)
def test_unpacked_is_what_was_packed(value: object) -> None:
    """Whatever the API may hold, order of keys included."""
    assert unpack(pack(value)) == value
    assert repr(unpack(pack(value))) == repr(value)


@pytest.mark.slow
@given(json_values)
def test_an_outline_is_what_is_not_nested(value: object) -> None:
    """Of whatever; only dicts have one."""
    flat = {k: v for k, v in value.items() if not isinstance(v, dict | list)} if isinstance(value, dict) else {}
    assert repr(api_json.outline(pack(value))) == repr(flat)


def test_what_is_unpacked_may_be_changed() -> None:
    """A body given out is fresh: changing it changes nothing that is kept."""
    packed = pack({"conditions": [{"type": "Synced"}]})
    unpack(packed)["conditions"][0]["type"] = "Stalled"
    assert unpack(packed) == {"conditions": [{"type": "Synced"}]}


def test_equal_parts_are_one_object() -> None:
    """The conditions of a thousand records written in one second are kept once."""
    first = pack({"state": "Synced", "conditions": [{"type": "Synced", "at": "12:00"}]})
    second = pack({"state": "Parked", "conditions": [{"type": "Synced", "at": "12:00"}]})
    assert first[0] is second[0] and first[2] is second[2]


def test_numbers_are_not_shared_with_truths() -> None:
    """Python holds them for equal; JSON does not."""
    for value in ([[0]], [[False]], [[1]], [[True]], {"a": {"b": 1}}, {"a": {"b": True}}):
        assert repr(unpack(pack(value))) == repr(value)


def test_what_is_shared_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full tables are forgotten, and what was packed before stays right."""
    monkeypatch.setattr(api_json, "SHARED_MAX", 8)
    bodies = [{f"key{n}": {f"inner{n}": n}} for n in range(100)]
    assert [unpack(each) for each in [pack(body) for body in bodies]] == bodies
    assert len(api_json._shared) <= 8 and len(api_json._shapes) <= 8
