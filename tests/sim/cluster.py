"""The cluster of a simulated world: ConfigMaps that users create, change, delete and recreate, and etcd's backups.

Versions rise with every write, as the API server's do; a restore brings the objects *and* the counter back.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import msgspec

from fairlead_hub.cluster.content import Kind, LiveObject, build

CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)


class Cluster:
    """Objects by name; ``live`` is what the API would list."""

    def __init__(self, random: Random, names: list[str]) -> None:
        self._random = random
        self._names = names
        self._version = 0
        self._uids = 0
        self._objects: dict[str, dict[str, Any]] = {}
        self._backup: tuple[int, dict[str, dict[str, Any]]] = (0, {})

    def live(self) -> dict[str, LiveObject]:
        built = (build(msgspec.json.encode(body), CONFIG_MAP) for body in self._objects.values())
        return {live.key: live for live in built}

    def uids(self) -> set[str]:
        return {body["metadata"]["uid"] for body in self._objects.values()}

    def change(self) -> str:
        """One thing a user does; returns the name it was done to."""
        name = self._random.choice(self._names)
        if name not in self._objects:
            self._create(name)
        else:
            match self._random.choices(["update", "delete", "recreate", "touch"], [6, 1, 1, 1])[0]:
                case "update":
                    self._objects[name]["data"] = {"n": str(self._random.randrange(1 << 30))}
                    self._stamp(name)
                case "delete":
                    del self._objects[name]
                case "recreate":
                    self._create(name)
                case "touch":
                    self._objects[name]["metadata"]["managedFields"] = [{"n": self._random.randrange(1 << 30)}]
                    self._stamp(name)
        return name

    def back_up(self) -> None:
        self._backup = (self._version, copy.deepcopy(self._objects))

    def restore(self) -> None:
        """The API server comes back from the last backup: objects and versions go back."""
        self._version, objects = self._backup
        self._objects = copy.deepcopy(objects)

    def _create(self, name: str) -> None:
        self._uids += 1
        self._objects[name] = {
            "metadata": {"namespace": "sim", "name": name, "uid": f"uid-{self._uids}"},
            "data": {"n": str(self._random.randrange(1 << 30))},
        }
        self._stamp(name)

    def _stamp(self, name: str) -> None:
        self._version += 1
        self._objects[name]["metadata"]["resourceVersion"] = str(self._version)
