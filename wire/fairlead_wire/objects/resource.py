"""The name of an object, written as its Kubernetes REST path, and the order of resourceVersions.

    api/v1/namespaces/shop/configmaps/prices        namespaced, core group
    apis/apps/v1/namespaces/shop/deployments/till   namespaced, group apps
    api/v1/nodes/edge-1                             cluster-scoped

The path is unambiguous whatever names users choose ("node", "status" …), is what ``kubectl`` requests, and shows the
scope.  ``key`` omits the version, because an object is the same under every version of its group (seed: reliable
message delivery, "Key = resourceType/resourceNamespace/resourceName").

Since Kubernetes 1.35 the resourceVersions of a resource are documented to be comparable decimal numbers.  They are
compared by (length, text), not converted with ``int()``: garbage from a peer or a restored record must neither raise
nor cost quadratic time.
"""

from __future__ import annotations

import msgspec

from fairlead_wire.errors import Malformed

PATH_CHARS_MAX = 1024
VERSION_CHARS_MAX = 64
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
        """type/namespace/name: the identity by which sends are deduplicated."""
        return f"{self.type}/{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        root = f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"
        if self.namespace:
            return f"{root}/namespaces/{self.namespace}/{self.plural}/{self.name}"
        return f"{root}/{self.plural}/{self.name}"

    def __str__(self) -> str:
        return self.path


def shown(key: str) -> str:
    """A key as people read it: of an object without a namespace nothing stands between the slashes, so one is left."""
    return key.replace("//", "/", 1)


def parse(path: str) -> Resource:
    """Parse a REST path.  Raises ``Malformed`` if it is not one, or longer than ``PATH_CHARS_MAX``."""
    if len(path) > PATH_CHARS_MAX:
        raise Malformed(f"resource path of {len(path)} characters is over the limit of {PATH_CHARS_MAX}")
    if any(not part or part in (".", "..") or _FORBIDDEN & set(part) for part in path.split("/")):
        raise Malformed(f"not a resource path: {path!r}")
    return split(path)


def split(path: str) -> Resource:
    """Parse a path that we made ourselves, from names that the API server allows but ``parse`` does not (``a?b``)."""
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


def is_comparable(version: str) -> bool:
    """True for a decimal number without leading zeros and with at most ``VERSION_CHARS_MAX`` digits."""
    return (
        0 < len(version) <= VERSION_CHARS_MAX
        and version.isascii()
        and version.isdigit()
        and (version == "0" or version[0] != "0")
    )


def is_newer(candidate: str, than: str) -> bool:
    """True if ``candidate`` is known to be newer.

    Text that is not comparable is older than any comparable version.  Of two such texts neither is known to be newer,
    so the result is False and the content digest has to decide.
    """
    if not is_comparable(candidate):
        return False
    if not is_comparable(than):
        return True
    return (len(candidate), candidate) > (len(than), than)
