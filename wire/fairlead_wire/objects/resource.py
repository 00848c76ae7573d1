"""The name of an object, written as its Kubernetes REST path; and the order of resourceVersions.

    api/v1/namespaces/shop/configmaps/prices        namespaced, core group
    apis/apps/v1/namespaces/shop/deployments/till   namespaced, group apps
    api/v1/nodes/edge-1                             cluster-scoped

The path is unambiguous whatever words users choose for names ("node", "status" …), is what
``kubectl`` asks for, and carries the scope: four parts less means cluster-scoped.  One object
under two versions of its group is one key, so ``key`` leaves the version out (seed: reliable
message delivery, "Key = resourceType/resourceNamespace/resourceName").

Since Kubernetes 1.35 the resourceVersions of one resource are documented as comparable decimal numbers.  They are
compared by (length, text), never by ``int()`` of unchecked input: a peer's or a restored record's garbage must not
raise, nor cost quadratic time.
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


def shown(key: str) -> str:
    """A key as people read it: of an object without a namespace nothing stands between the slashes, so one is left."""
    return key.replace("//", "/", 1)


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


def is_comparable(version: str) -> bool:
    """True for a decimal number without leading zeros, at most ``VERSION_CHARS_MAX`` digits."""
    return (
        0 < len(version) <= VERSION_CHARS_MAX
        and version.isascii()
        and version.isdigit()
        and (version == "0" or version[0] != "0")
    )


def is_newer(candidate: str, than: str) -> bool:
    """True when ``candidate`` is known to be newer.

    Empty or foreign text is older than any comparable version; between two foreign texts
    nothing is known, so the answer is False and the content digest has to decide.
    """
    if not is_comparable(candidate):
        return False
    if not is_comparable(than):
        return True
    return (len(candidate), candidate) > (len(than), than)
