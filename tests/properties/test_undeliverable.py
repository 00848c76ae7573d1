"""What the hub thinks an edge would take, the edge takes: nothing is sent only to be refused, or worse."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.objects import metastore
from fairlead_edge.objects.metastore import verify
from fairlead_hub.cluster import content
from fairlead_hub.cluster.content import LiveObject, ServedKind
from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import resource

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2)
NAMES = st.sampled_from(["a", "a-b.c", "x" * 253, "a?b", "a#b", "a\\b", "a%b", "..", ".", "a/b", "", "ä", "a\nb"])
METADATA = st.fixed_dictionaries(
    {
        "name": NAMES | ANYTHING,
        "uid": st.sampled_from(["u-1", "U_2", "a.b", "", "x" * 129]) | ANYTHING,
        "resourceVersion": st.sampled_from(["1", "", "1" * 300]) | ANYTHING,
    },
    optional={
        "namespace": st.sampled_from(["shop", ""]) | ANYTHING,
        "labels": TEXTS | ANYTHING,
        "annotations": TEXTS | ANYTHING,
        "creationTimestamp": st.text(max_size=5) | ANYTHING,
        "generation": ANYTHING,
    },
)
BODIES = st.fixed_dictionaries({"metadata": METADATA | ANYTHING}, optional={"spec": ANYTHING, "data": ANYTHING})
KINDS = st.sampled_from(
    [
        ServedKind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True),
        ServedKind(group="", version="v1", kind="Pod", plural="pods", namespaced=True),
        ServedKind(group="example.com", version="v1", kind="Widget", plural="widgets", namespaced=False),
    ]
)


def built(raw: bytes, kind: ServedKind) -> LiveObject | None:
    try:
        return content.build(raw, kind)
    except content.Unusable:
        return None


def judged_by_the_edge(live: LiveObject) -> None:
    verify(
        metastore.Put(
            resource=resource.parse(live.path),
            uid=live.uid,
            digest=live.digest,
            resource_version=live.version,
            content=codec.unpack(live.encoding, live.content),
        )
    )
    header = message.Update(
        id=1, resource=live.path, uid=live.uid, resource_version=live.version, digest=live.digest,
        encoding=live.encoding,
    )  # fmt: skip
    codec.decode_from_hub(codec.encode(header))


@pytest.mark.slow
@given(BODIES, KINDS)
def test_what_is_sent_is_taken(body: dict[str, Any], kind: ServedKind) -> None:
    """And whatever the object is, it is either sent, parked with a reason, or left out by name."""
    live = built(msgspec.json.encode(body), kind)
    if live is not None and live.problem is None:
        judged_by_the_edge(live)


@given(st.integers(1, 400), KINDS)
def test_both_ends_have_the_same_limit_of_depth(levels: int, kind: ServedKind) -> None:
    """To the level."""
    deep: Any = 1
    for _ in range(levels):
        deep = [deep]
    metadata: dict[str, Any] = {"name": "a", "uid": "u", "resourceVersion": "1"}
    if kind.namespaced:
        metadata["namespace"] = "shop"
    live = built(msgspec.json.encode({"metadata": metadata, "spec": deep}), kind)
    assert live is not None
    assert (live.problem is None) == (levels + 1 <= codec.NESTING_MAX)
    if live.problem is None:
        judged_by_the_edge(live)
