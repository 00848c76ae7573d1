"""What follows from a write, whichever store it is; the promises of both are in the conformance suite."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.edges.held import config_map, put

from fairlead_edge.objects import metastore
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.metastore import verify
from fairlead_wire.errors import Permanent


@pytest.mark.parametrize(
    ("stored", "wall", "opened"), [(0, 1_700_000_000_000, 1_700_000_000_000), (900, 7, 901), (900, 900, 901)]
)
def test_an_opening_takes_a_version_above_all_before(stored: int, wall: int, opened: int) -> None:
    assert metastore.opening_version(stored, wall) == opened


# ---- what is checked before a write ---------------------------------------------------------------


def test_the_kind_is_in_the_content_and_the_scope_in_the_path() -> None:
    """Discovery is built from what came, nothing has to be configured."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-1"}}
    till = {"apiVersion": "shop.example/v2", "kind": "Till", "metadata": {"name": "t", "namespace": "shop"}}
    assert verify(put(node, "nodes")).namespaced is False
    kind = verify(put(till, "tills"))
    assert (kind.group, kind.version, kind.plural, kind.kind, kind.namespaced) == (
        "shop.example",
        "v2",
        "tills",
        "Till",
        True,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"uid": ""},
        {"uid": "u" * 129},
        {"uid": "x/../../pods/y"},
        {"uid": "1.2"},
        {"resource_version": "1" * 300},
    ],
)
def test_absurd_names_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(Permanent) as refused:
        verify(msgspec.structs.replace(put(config_map("a")), **changes))
    assert refused.value.code == "malformed_content"


# ---- the twin's own part; the shared promises are in the conformance suite ------------------------


async def test_the_twin_keeps_what_was_durable() -> None:
    store = MemoryMetastore()
    await store.apply([put(config_map("a"))], now=0)
    again = store.reopened(50)
    await store.apply([put(config_map("b"))], now=0)
    assert (await again.summary()).held == 1 and again.log.version == 50
