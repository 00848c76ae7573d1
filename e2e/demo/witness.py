"""Queries cluster, edges and table from outside, and waits until they agree.

It uses only public interfaces: kubectl, the edges' local API, the Delta table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from e2e.demo import expected
from e2e.demo.count import Row
from e2e.demo.edge import Edge
from e2e.demo.screen import Screen
from e2e.demo.stack import NODES, Stack
from e2e.demo.table import read_rows

CONVERGE_SECONDS = 180.0
DRAIN_SECONDS = 180.0

KINDS = {
    "Pod": "/api/v1/namespaces/harbour/pods",
    "ConfigMap": "/api/v1/namespaces/harbour/configmaps",
    "Secret": "/api/v1/namespaces/harbour/secrets",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "EdgeRoutes": "/apis/fairlead.dev/v1alpha1/edgeroutes",
}


class Witness:
    """Queries one stack."""

    def __init__(self, stack: Stack, screen: Screen) -> None:
        self._stack = stack
        self._screen = screen
        self._api = stack.kubernetes

    def connected(self) -> set[str]:
        """The nodes whose EdgeNode says connected."""
        found = json.loads(self._api.kubectl("get", "edgenodes.fairlead.dev", "-o", "json"))["items"]
        return {each["metadata"]["name"] for each in found if (each.get("status") or {}).get("connected")}

    def shares(self) -> dict[str, dict[expected.Key, expected.Object]]:
        """What each node should hold, from the cluster as it is now."""
        items: list[expected.Object] = []
        for kinds, options in (
            ("pods,configmaps,secrets", ["-n", expected.NAMESPACE]),
            ("priorityclasses,edgeroutes.fairlead.dev", ["-l", f"{expected.DEMO_LABEL}=true"]),
        ):
            items += json.loads(self._api.kubectl("get", kinds, *options, "-o", "json"))["items"]
        return {node: expected.share(node, items) for node in NODES}

    def records(self) -> list[expected.Object]:
        """Every ObjectSync and ClusterObjectSync."""
        found: list[expected.Object] = []
        for kind in ("objectsyncs.fairlead.dev", "clusterobjectsyncs.fairlead.dev"):
            found += json.loads(self._api.kubectl("get", kind, "-A", "-o", "json"))["items"]
        return found

    def held(self, edge: Edge) -> dict[expected.Key, expected.Object]:
        """What the edge's own API serves."""
        items = [{"kind": kind, **item} for kind, path in KINDS.items() for item in edge.items(path)]
        return {expected.key(item): item for item in items}

    def rows(self) -> list[Row]:
        """The table as it is now."""
        return read_rows(self._stack.table)

    def wait_true(self, nodes: Iterable[str]) -> None:
        """Every one of `nodes` serves its share, no more and no less, equal in content."""
        wanted = self.shares()
        for node in nodes:
            edge = self._stack.edges[node]
            seen: list[str] = []

            def is_true(node: str = node, edge: Edge = edge, seen: list[str] = seen) -> bool:
                seen[:] = expected.differences(wanted[node], self.held(edge))
                return not seen

            self._screen.wait(
                f"{node} holds its {len(wanted[node])} objects", is_true, seconds=CONVERGE_SECONDS,
                progress=lambda seen=seen: f"{len(seen)} differences",  # type: ignore[misc]
                describe=lambda node=node, seen=seen: "\n".join(  # type: ignore[misc]
                    [*seen[:20], self._stack.tail("hub"), self._stack.tail(node)]
                ),
            )  # fmt: skip

    def wait_records(self) -> None:
        """Every record says that its node holds what it should, and no record is left over."""
        wanted = self.shares()
        seen: list[str] = []

        def is_true() -> bool:
            seen[:] = expected.behind(self.records(), wanted)
            return not seen

        self._screen.wait(
            "every record says Wanted = Held", is_true, seconds=CONVERGE_SECONDS, every=0.5,
            progress=lambda: f"{len(seen)} behind",
            describe=lambda: "\n".join([*seen[:20], self._stack.tail("hub")]),
        )  # fmt: skip

    def wait_drained(self, nodes: Iterable[str]) -> None:
        """Wait until the outboxes of `nodes` are empty."""
        edges = [self._stack.edges[node] for node in nodes]
        self._screen.wait(
            f"the outboxes of {', '.join(edge.name for edge in edges)} are empty",
            lambda: not any(waiting(edge) for edge in edges),
            seconds=DRAIN_SECONDS,
            progress=lambda: "; ".join(f"{edge.name}: {waiting_text(edge)}" for edge in edges),
            describe=lambda: "\n".join([self._stack.tail("hub"), *(self._stack.tail(edge.name) for edge in edges)]),
        )


def waiting(edge: Edge) -> dict[int, int]:
    """Messages in the edge's outbox by priority, empty queues left out."""
    found: dict[int, int] = {}
    for queue in edge.status()["queues"]:
        if queue["length"]:
            found[queue["priority"]] = found.get(queue["priority"], 0) + queue["length"]
    return found


def waiting_text(edge: Edge) -> str:
    """The same for people."""
    return ", ".join(f"{count} of priority {each}" for each, count in sorted(waiting(edge).items())) or "nothing"
