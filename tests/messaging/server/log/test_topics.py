"""The metadata table."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_core import NAMESPACE, Core

from fairlead_messaging.api.errors import NotFound, Refused
from fairlead_messaging.server.commands import DeleteTopic
from fairlead_messaging.server.log import topics


def test_lookup_and_listing() -> None:
    """Living topics only; cleanup sees the deleted ones too."""
    core = Core()
    for name in ("b", "a", "c"):
        core.create(name)
    core.do(DeleteTopic(namespace=NAMESPACE, name="a"))
    with core.kv.snapshot() as snapshot:
        assert topics.names(snapshot, NAMESPACE) == ["b", "c"]
        assert topics.names(snapshot, "other") == []
        assert [each.name for each in topics.every(snapshot)] == ["a", "b", "c"]
    with pytest.raises(NotFound):
        core.topic("a")
    with pytest.raises(Refused):
        topics.lookup(core.kv, NAMESPACE, "a:b")
