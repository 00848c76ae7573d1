"""Objects as the edge's store holds them, for tests of what reads them."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_edge.objects.metastore import HeldObject, Put, hold
from fairlead_wire.objects import digest, resource


def put(document: dict[str, Any], plural: str = "configmaps", *, version: str = "100") -> Put:
    """The request to store an object."""
    metadata, api = document["metadata"], document["apiVersion"]
    root = f"apis/{api}" if "/" in api else f"api/{api}"
    inside = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    content = msgspec.json.encode(document)
    return Put(
        resource=resource.parse(f"{root}{inside}/{plural}/{metadata['name']}"),
        uid=metadata.get("uid") or f"uid-{metadata['name']}",
        digest=digest.content_digest(content),
        resource_version=version,
        content=content,
    )


def held(
    document: dict[str, Any], plural: str = "configmaps", *, local_version: int = 1, at: float = 0.0
) -> HeldObject:
    """The object as the store holds it."""
    return hold(put(document, plural), local_version=local_version, now=at)


def config_map(
    name: str, *, namespace: str = "shop", labels: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """A ConfigMap with these labels."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels is not None:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, **more}, "data": {"k": "v"}}
