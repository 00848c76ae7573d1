"""Parses a PATCH of ``…/status``; the body is bounded before it is parsed.

application/merge-patch+json   JSON merge patch (RFC 7386)
application/apply-patch+yaml   server-side apply: ``fieldManager`` is required, ``force`` is optional
others                         415: a strategic merge needs the kind's schema, and the edge keeps none

Kubernetes clients send JSON with the media type of YAML; people send YAML with curl.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from fairlead_edge.objects.metastore import HeldObject
from fairlead_wire import message
from fairlead_wire.errors import FairleadError, Permanent


class BadYaml(FairleadError):
    """The YAML cannot be parsed; the text says where."""


def load_yaml(text: bytes) -> Any:
    """Parse YAML as JSON values, without references, tags and dates.  Raises ``BadYaml``.

    The parser is imported on first use.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses references, because a few bytes could expand to gigabytes."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("references (*name) are not supported")
            return super().compose_node(parent, index)

    dates = "tag:yaml.org,2002:timestamp"
    Loader.yaml_implicit_resolvers = {
        first: [pair for pair in pairs if pair[0] != dates] for first, pairs in Loader.yaml_implicit_resolvers.items()
    }
    try:
        found = yaml.load(text, Loader)
        _check(found)
    except (yaml.YAMLError, ValueError, UnicodeDecodeError, RecursionError) as error:
        raise BadYaml(" ".join(str(error).split())[:200] or type(error).__name__) from None
    return found


def _check(value: Any) -> None:
    """Raises ``ValueError`` for values that JSON does not have."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if not all(isinstance(key, str) for key in each):
                raise ValueError("a key is not a string")
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, float) and (each != each or each in (float("inf"), float("-inf"))):
            raise ValueError("a number is not finite")
        elif not isinstance(each, str | int | float | bool | None):
            raise ValueError(f"{type(each).__name__} is not a JSON value")


MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
BODY_BYTES_MAX: Final = 2 * message.STATUS_BYTES_MAX
"""Limit of a request; YAML takes more room than the JSON that is stored."""
DEPTH_MAX: Final = 64
"""Levels of objects and lists in a status."""
MANAGER_CHARS_MAX: Final = 128
DEFAULT_MANAGER: Final = "unknown"
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")


class PatchRefused(Permanent):
    """The patch was refused and nothing was changed; ``status`` is the HTTP status."""

    def __init__(
        self, status: int, text: str, *, details: dict[str, Any] | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(text, code=f"http_{status}")
        self.status = status
        self.details = details or {}
        self.retry_after = retry_after


class StatusPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed patch; ``status`` UNSET: the patch has none.  Empty strings mean: not given."""

    operation: Literal["Apply", "Update"]
    manager: str
    status: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    force: bool = False
    dry_run: bool = False
    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


def read(content_type: str, body: bytes, query: Mapping[str, str], user_agent: str = "") -> StatusPatch:
    """Parse a patch.  Raises ``PatchRefused``."""
    media = content_type.partition(";")[0].strip().lower()
    if media not in (MERGE, APPLY):
        raise PatchRefused(
            415,
            f"{media or 'no content type'} is not supported, because the edge keeps no schemas: send a JSON merge"
            f" patch ({MERGE}, kubectl patch --type=merge) or apply ({APPLY}, kubectl apply --server-side)",
        )
    document = _object(media, body)
    force = query.get("force", "").lower() in ("true", "1")
    if force and media == MERGE:
        raise PatchRefused(422, "force: may not be specified for non-apply patch")
    manager = query.get("fieldManager", "")
    if media == APPLY and not manager:
        raise PatchRefused(422, "fieldManager: is required for apply patch")
    if len(manager) > MANAGER_CHARS_MAX or not manager.isprintable():
        raise PatchRefused(422, f"fieldManager: at most {MANAGER_CHARS_MAX} printable characters")
    metadata = _checked_metadata(document)
    if media == APPLY and not (document.get("apiVersion") and document.get("kind")):
        raise PatchRefused(400, "an applied document must have apiVersion and kind")
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        raise PatchRefused(422, f"dryRun: {dry_run[:40]!r} is not supported; All is")
    return StatusPatch(
        operation="Apply" if media == APPLY else "Update",
        manager=manager or _of_agent(user_agent),
        status=_status(document),
        force=force,
        dry_run=bool(dry_run),
        api_version=_text(document, "apiVersion"),
        kind=_text(document, "kind"),
        **{_snake(key): _text(metadata, key) for key in _IDENTITY},
    )


def check_identity(patch: StatusPatch, held: HeldObject, kind: str) -> None:
    """Check that the patch is for this object at its current version.  Raises ``PatchRefused``."""
    at = held.resource
    for name, given, there in (
        ("apiVersion", patch.api_version, at.api_version),
        ("kind", patch.kind, kind),
        ("metadata.name", patch.name, at.name),
        ("metadata.namespace", patch.namespace, at.namespace),
    ):
        if given and given != there:
            raise PatchRefused(400, f"{name} is {given[:100]!r}, the path says {there!r}")
    if patch.uid and patch.uid != held.uid:
        raise PatchRefused(409, f"Precondition failed: UID in precondition: {patch.uid[:100]}, UID here: {held.uid}")
    if patch.resource_version and patch.resource_version != str(held.local_version):
        raise PatchRefused(
            409,
            f"the object has been modified: its resourceVersion here is {held.local_version}; read it and patch again",
        )


def _object(media: str, body: bytes) -> dict[str, Any]:
    if len(body) > BODY_BYTES_MAX:
        raise PatchRefused(413, f"a body of {len(body)} bytes exceeds the limit of {BODY_BYTES_MAX}")
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if media == MERGE:
            raise PatchRefused(400, f"the body is not JSON: {error}") from None
        try:
            found = load_yaml(body)
        except BadYaml as bad:
            raise PatchRefused(400, f"the body is neither JSON nor YAML: {bad}") from None
    if not isinstance(found, dict):
        raise PatchRefused(400, "the body must be an object with the changes below status")
    try:
        msgspec.json.encode(found)
    except (ValueError, OverflowError, RecursionError):  # a lone surrogate; a number of 5,000 digits
        raise PatchRefused(400, "the body has text that is not Unicode, or a number too long for JSON") from None
    return found


def _checked_metadata(document: dict[str, Any]) -> dict[str, Any]:
    """The metadata; refuses changes outside the status, which only the cluster makes.  Empty values are ignored."""
    metadata = document.get("metadata")
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict):
        raise PatchRefused(400, "metadata: must be an object")
    unknown = [key for key, value in document.items() if key not in ("apiVersion", "kind", "metadata", "status")
               and value not in (None, {}, [])]  # fmt: skip
    unknown += [f"metadata.{key}" for key, value in metadata.items() if key not in _IDENTITY
                and value not in (None, {}, [])]  # fmt: skip
    if unknown:
        named = ", ".join(str(key)[:60] for key in sorted(unknown)[:5])
        raise PatchRefused(422, f"{named}: only status can be changed at the edge; omit the rest")
    return metadata


def _status(document: dict[str, Any]) -> dict[str, Any] | msgspec.UnsetType | None:
    if "status" not in document:
        return msgspec.UNSET
    found = document["status"]
    if found is not None and not isinstance(found, dict):
        raise PatchRefused(422, f"status: must be an object, is {type(found).__name__}")
    if _depth(found) > DEPTH_MAX:
        raise PatchRefused(422, f"status: nested deeper than {DEPTH_MAX} levels")
    return found


def _depth(value: Any) -> int:
    """The nesting depth, counted level by level up to the limit."""
    level, depth = [value], 0
    while level and depth <= DEPTH_MAX:
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        depth += 1
    return depth


def _text(document: dict[str, Any], key: str) -> str:
    found = document.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise PatchRefused(400, f"{key}: must be text")
    return found


def _snake(key: str) -> str:
    return "resource_version" if key == "resourceVersion" else key


def _of_agent(user_agent: str) -> str:
    """The name that the API server gives to a program without a field manager."""
    name = "".join(each for each in user_agent.partition("/")[0] if each.isprintable()).strip()
    return name[:MANAGER_CHARS_MAX] or DEFAULT_MANAGER
