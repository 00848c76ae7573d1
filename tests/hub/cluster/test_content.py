"""Delivered content: canonical, without bookkeeping, the same for the same."""

import msgspec
import pytest
from tests.support.hubs.live import CONFIG_MAP, POD, body, live

from fairlead_hub.cluster import content
from fairlead_hub.cluster.content import ContentId
from fairlead_wire.link import codec
from fairlead_wire.objects import digest


def test_bookkeeping_and_status_are_not_delivered():
    """A change that leaves the delivered content the same is no delivery."""
    first = live(CONFIG_MAP, "a", version="1", data={"k": "v"})
    noise = {
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {content.LAST_APPLIED: "{}"},
    }
    second = live(CONFIG_MAP, "a", version="2", data={"k": "v"}, status={"phase": "x"}, metadata=noise)
    assert first.digest == second.digest
    assert (first.version, second.version) == ("1", "2")


def test_what_users_write_is_delivered():
    """Labels, annotations of others, owners, deletionTimestamp: ordinary content."""
    metadata = {"labels": {"a": "b"}, "annotations": {"x": "y"}, "deletionTimestamp": "2026-11-20T00:00:00Z"}
    decoded = content.unpacked(live(CONFIG_MAP, "a", metadata=metadata, data={"k": "v"}))
    assert decoded["metadata"]["labels"] == {"a": "b"}
    assert decoded["metadata"]["annotations"] == {"x": "y"}
    assert "deletionTimestamp" in decoded["metadata"]
    assert (decoded["apiVersion"], decoded["kind"]) == ("v1", "ConfigMap")


def test_the_digest_is_of_the_bytes_that_travel():
    """The edge can check what it got."""
    one = live(CONFIG_MAP, "a", data={"k": "v" * 1000})
    assert one.encoding == "zstd"
    assert digest.content_digest(codec.unpack(one.encoding, one.content)) == one.digest


def test_key_order_does_not_matter():
    """Canonical: sorted keys."""
    assert (
        live(CONFIG_MAP, "a", data={"a": "1", "b": "2"}).digest
        == live(CONFIG_MAP, "a", data={"b": "2", "a": "1"}).digest
    )


def test_pods_know_their_node_and_references():
    """Only Pods are bound and refer."""
    pod = live(POD, "p", spec={"nodeName": "edge-1", "volumes": [{"configMap": {"name": "c"}}]})
    assert pod.node_name == "edge-1"
    assert "configmaps/shop/c" in pod.references
    assert live(CONFIG_MAP, "a", spec={"nodeName": "edge-1"}).node_name == ""


@pytest.mark.parametrize("raw", [b"[]", b"{}", b'{"metadata": 3}', b'{"metadata": {"name": "a"}}', b"nonsense"])
def test_an_object_without_identity_is_left_out(raw):
    """Counted and left out, never an exception that stops a watch."""
    with pytest.raises(content.Unusable):
        content.build(raw, CONFIG_MAP)


def test_one_whose_name_alone_can_be_read_is_named():
    """So that what was known of it goes on counting."""
    with pytest.raises(content.Unusable) as caught:
        content.build(msgspec.json.encode(body("a", uid="../x")), CONFIG_MAP)
    assert (caught.value.code, caught.value.key) == ("no_identity", "configmaps/shop/a")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"data": {"k": "x" * (codec.CONTENT_BYTES_MAX + 1)}}, "too_large"),
        ({"metadata": {"labels": {"a": 1, "b": "2"}}}, "malformed_content"),
        ({"metadata": {"labels": ["a"]}}, "malformed_content"),
        ({"metadata": {"annotations": "none"}}, "malformed_content"),
        ({"metadata": {"creationTimestamp": 7}}, "malformed_content"),
        ({"version": "1" * 300}, "malformed_content"),
    ],
)
def test_what_no_edge_would_take_says_why(fields, code):
    """It is an object like any other, with its labels as far as they can be read; only it is never sent."""
    one = live(CONFIG_MAP, "a", **fields)
    assert one.problem is not None and one.problem.code == code
    assert one.content == b"" and one.digest
    assert set(one.labels) <= {"b"}


@pytest.mark.parametrize("levels", [201, 500, 1100, 20_000])
def test_nested_deeper_than_others_can_read(levels):
    """The API server takes any depth."""
    raw = msgspec.json.encode(body("a"))[:-1] + b',"spec":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"
    one = content.build(raw, CONFIG_MAP)
    assert one.problem is not None and one.problem.code == "too_deep"


@pytest.mark.parametrize("name", ["a?b", "a#b", "a\\b", "a\nb"])
def test_names_that_are_no_path_are_not_sent(name):
    """The API server allows them for some kinds; an edge would end its session over one."""
    one = live(CONFIG_MAP, name, uid="u")
    assert (one.problem is not None) == (name != "a\nb")


def test_another_content_of_it_is_another_thing():
    """What was mended is tried at once, what is as it was stays parked."""
    versions = [live(CONFIG_MAP, "a", version=v, metadata={"annotations": "x"}).digest for v in ("1", "1", "2")]
    assert versions[0] == versions[1] != versions[2]


def test_content_ids_are_compared_by_both_parts():
    """Joined as text, UID ``a1`` with content ``2`` would be UID ``a`` with content ``12``."""
    assert ContentId("a1", "2") != ContentId("a", "12")
    one = live(CONFIG_MAP, "a")
    assert one.content_id == one.held.content_id == ContentId(one.uid, one.digest)
    assert one.content_id != live(CONFIG_MAP, "a", data={"k": "2"}).content_id


def test_identity_of_a_path():
    """The kind comes from discovery; without it the plural stands in."""
    assert content.identity("api/v1/namespaces/a/configmaps/b", {}) == ("v1", "configmaps", "a", "b")
