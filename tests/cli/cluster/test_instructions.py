"""What people say to the hub, by annotations."""

from __future__ import annotations

from typing import Any

from fairlead_cli.cluster import instructions
from fairlead_wire.objects.api_group import PAUSED


class Kube:
    """Remembers what it was asked to write."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, Any]] = []

    async def request(self, method: str, path: str, body: Any, *, content_type: str) -> bytes:
        self.written.append((method, path, body["metadata"]["annotations"]))
        return b"{}"


async def test_an_annotation_is_taken_back() -> None:
    kube = Kube()
    await instructions.write(kube, instructions.node_path("a/b"), {PAUSED: None})  # type: ignore[arg-type]
    path = "apis/fairlead.dev/v1alpha1/edgenodes/a%2Fb"
    assert kube.written == [("PATCH", path, {"fairlead.dev/paused": None})]


def test_an_object_without_annotations() -> None:
    assert instructions.of({"metadata": {}}) == {} == instructions.of({"metadata": {"annotations": None}})
