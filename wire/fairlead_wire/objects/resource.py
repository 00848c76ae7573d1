"""The name of an object, written as its Kubernetes REST path.

    api/v1/namespaces/shop/configmaps/prices        namespaced, core group
    apis/apps/v1/namespaces/shop/deployments/till   namespaced, group apps
    api/v1/nodes/edge-1                             cluster-scoped

The path is unambiguous whatever words users choose for names ("node", "status" …), is what
``kubectl`` asks for, and carries the scope: four parts less means cluster-scoped.  One object
under two versions of its group is one key, so ``key`` leaves the version out (seed: reliable
message delivery, "Key = resourceType/resourceNamespace/resourceName").
"""

from __future__ import annotations

import msgspec

from fairlead_wire.errors import Malformed

PATH_CHARS_MAX = 1024
_FORBIDDEN = frozenset("/\\%?#")


class Resource(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Group ("" = core), version, plural, namespace ("" = cluster-scoped) and name of one object."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def type(self) -> str:
        """The kind part of the key: ``configmaps`` or ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def key(self) -> str:
        """type/namespace/name: the identity under which sends are deduplicated."""
        return f"{self.type}/{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        root = f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"
        if self.namespace:
            return f"{root}/namespaces/{self.namespace}/{self.plural}/{self.name}"
        return f"{root}/{self.plural}/{self.name}"

    def __str__(self) -> str:
        return self.path


def parse(path: str) -> Resource:
    """Parse a REST path.  Raises ``Malformed`` when it is none or over ``PATH_CHARS_MAX``."""
    if len(path) > PATH_CHARS_MAX:
        raise Malformed(f"resource path of {len(path)} characters is over the limit of {PATH_CHARS_MAX}")
    if any(not part or part in (".", "..") or _FORBIDDEN & set(part) for part in path.split("/")):
        raise Malformed(f"not a resource path: {path!r}")
    return split(path)


def split(path: str) -> Resource:
    """The same for a path of our own making: the API server allows names that ``parse`` does not (``a?b``)."""
    match path.split("/"):
        case ["api", version, "namespaces", namespace, plural, name]:
            return Resource(group="", version=version, plural=plural, namespace=namespace, name=name)
        case ["api", version, plural, name]:
            return Resource(group="", version=version, plural=plural, namespace="", name=name)
        case ["apis", group, version, "namespaces", namespace, plural, name]:
            return Resource(group=group, version=version, plural=plural, namespace=namespace, name=name)
        case ["apis", group, version, plural, name]:
            return Resource(group=group, version=version, plural=plural, namespace="", name=name)
        case _:
            raise Malformed(f"not a resource path: {path!r}")
