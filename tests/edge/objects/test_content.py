"""What is checked before a write."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.edges.held import config_map, put

from fairlead_edge.objects.content import verify
from fairlead_wire.errors import Permanent


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


def test_an_object_without_a_uid_is_refused() -> None:
    """Deletes name UIDs, so an object without one could never be deleted."""
    with pytest.raises(Permanent) as refused:
        verify(msgspec.structs.replace(put(config_map("a")), uid=""))
    assert refused.value.code == "malformed_content"


@pytest.mark.parametrize(
    "changes", [{"uid": "u" * 129}, {"uid": "x/../../pods/y"}, {"uid": "1.2"}, {"resource_version": "1" * 300}]
)
def test_absurd_names_are_refused(changes: dict[str, str]) -> None:
    """What is held must fit into the frames that carry it."""
    with pytest.raises(Permanent):
        verify(msgspec.structs.replace(put(config_map("a")), **changes))
