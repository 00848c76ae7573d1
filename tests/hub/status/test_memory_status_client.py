"""The API server's twin refuses what the API server refuses; ``tests/conformance`` plays both."""

from typing import Any

from fairlead_hub.status.memory_status_client import MemoryStatusClient
from fairlead_hub.status.status_cache import Observed, Removal, StatusDocument, WriteOutcome

NAME = ("objectsyncs", "shop", "edge-1.u")


class Note(StatusDocument, frozen=True, kw_only=True):
    """A document whose status is one word."""

    state: Any
    created: bool = True

    def head(self) -> dict[str, Any] | None:
        return {} if self.created else None

    def status(self, observed: Observed | None) -> dict[str, Any]:
        return {"state": self.state}


def document(state, created=True):
    return Note(name=NAME, node="edge-1", state=state, created=created)


def observed(version="1", **status):
    return Observed(version=version, generation=1, status=status, head={})


async def test_the_twin_refuses_what_the_api_server_refuses():
    """Stale versions conflict, newer fences stop, namespaces that go take nothing new."""
    client = MemoryStatusClient()
    answer, first = await client.put(document("a"), None, 1)
    assert answer is WriteOutcome.WRITTEN
    answer, _ = await client.put(document("b"), None, 1)
    assert answer is WriteOutcome.CONFLICT
    answer, second = await client.put(document("b"), first, 1)
    assert answer is WriteOutcome.WRITTEN and second is not None and second.status == {"state": "b"}
    client.documents[NAME] = observed(second.version, fence=5)
    assert (await client.put(document("c"), second, 1))[0] is WriteOutcome.FENCED
    assert await client.remove(Removal(name=NAME, node="edge-1"), second, 1) is WriteOutcome.FENCED
    assert await client.remove(Removal(name=NAME, node="edge-1"), second, 5) is WriteOutcome.WRITTEN
    assert await client.remove(Removal(name=NAME, node="edge-1"), second, 5) is WriteOutcome.GONE
    client.gone_namespaces.add("shop")
    assert (await client.put(document("d"), None, 5))[0] is WriteOutcome.FORBIDDEN


async def test_a_status_on_something_others_create_needs_it_to_exist():
    """A SyncRule that was deleted meanwhile is not brought back."""
    client = MemoryStatusClient()
    status_only = document("a", created=False)
    assert (await client.put(status_only, None, 1))[0] is WriteOutcome.GONE
