"""An in-memory API server with a few objects, for tests of a command's own logic: lists, gets and merge patches.

It knows no selectors, versions and conflicts; these are tested with a real one.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_cli.cluster.target import Target
from fairlead_hub.io.cluster.api_error import ApiRefused
from fairlead_wire.objects import api_group

ROOT = api_group.ROOT
NODES, LEASES = "api/v1/nodes", "apis/coordination.k8s.io/v1/leases"
EDGE_NODES, TOKENS = f"{ROOT}/edgenodes", f"{ROOT}/jointokens"


class ApiInMemory:
    """``objects`` by the path of their collection; every collection that is not named is empty."""

    def __init__(self, objects: dict[str, list[dict[str, Any]]] | None = None) -> None:
        self.objects = objects or {}
        self.refused: dict[str, ApiRefused] = {}
        """Raised for every request to a path that begins so."""
        self.written: list[tuple[str, str, Any]] = []
        self.date = ("", 0.0)

    def is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Used by every command, whatever its options."""
        monkeypatch.setattr(Target, "_client", lambda _: self)

    async def close(self) -> None:
        """As in the real client."""

    async def get(self, path: str, **_headers: str) -> bytes:
        for prefix, error in self.refused.items():
            if path.startswith(prefix):
                raise error
        collection, _, name = path.rpartition("/")
        if collection in self.objects or collection in (NODES, EDGE_NODES, TOKENS):
            return json.dumps(self._one(collection, name)).encode()
        listed = {"metadata": {"resourceVersion": "1"}, "items": self.objects.get(path, [])}
        return json.dumps({"kind": "List", **listed}).encode()

    async def request(self, method: str, path: str, body: Any = None, **_headers: str) -> bytes:
        self.written.append((method, path, body))
        if method == "POST":
            self.objects.setdefault(path, []).append(body)
            return json.dumps(body).encode()
        collection, _, name = path.rpartition("/")
        found = self._one(collection, name)
        if method == "DELETE":
            self.objects[collection].remove(found)
            return b"{}"
        _merge(found, body)
        return json.dumps(found).encode()

    def _one(self, collection: str, name: str) -> dict[str, Any]:
        for each in self.objects.get(collection, ()):
            if each["metadata"]["name"] == name:
                return each
        raise ApiRefused(404, f'API server answered 404: {collection} "{name}" not found', "NotFound")


def _merge(found: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            _merge(found[key], value)
        else:
            found[key] = value
