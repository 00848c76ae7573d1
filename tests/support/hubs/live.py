"""Objects as the API server would list them, for tests of the hub's pure modules."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_hub.cluster.content import LiveObject, ServedKind, build

CONFIG_MAP = ServedKind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
SECRET = ServedKind(group="", version="v1", kind="Secret", plural="secrets", namespaced=True)
POD = ServedKind(group="", version="v1", kind="Pod", plural="pods", namespaced=True)
ROUTES = ServedKind(group="fairlead.dev", version="v1alpha1", kind="EdgeRoutes", plural="edgeroutes", namespaced=False)


def body(name: str, *, uid: str = "", version: str = "1", namespace: str = "shop", **fields: Any) -> dict[str, Any]:
    """``fields`` besides metadata; ``metadata`` adds to it."""
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": version}
    metadata.update(fields.pop("metadata", {}))
    return {"metadata": metadata, **fields}


def live(kind: ServedKind, name: str, **fields: Any) -> LiveObject:
    return build(msgspec.json.encode(body(name, **fields)), kind)
