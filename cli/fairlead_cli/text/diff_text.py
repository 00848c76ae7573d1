"""Two versions of an object as a unified diff of YAML; of Secrets the values are compared and never shown."""

from __future__ import annotations

import base64
import binascii
import copy
import difflib
import hashlib
from typing import Any, Final

from fairlead_cli.text import yaml_text

APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The whole object again, of a Secret with its values."""
OWN: Final = ("resourceVersion", "managedFields", "generation", "creationTimestamp", "selfLink")
"""Of metadata: what each side counts for itself."""
HIDDEN_CHARS: Final = 12


def unified(
    cluster: dict[str, Any] | None, edge: dict[str, Any] | None, names: tuple[str, str], key: bytes
) -> list[str]:
    """Lines from what the cluster has to what the edge has; none when they say the same.

    ``key`` goes into the digests of Secrets' values: made for this one comparison, it leaves nothing to guess them by.
    """
    before, after = (
        [] if each is None else yaml_text.text_of(comparable(each, key)).splitlines() for each in (cluster, edge)
    )
    return list(difflib.unified_diff(before, after, *names, lineterm=""))


def comparable(item: dict[str, Any], key: bytes) -> dict[str, Any]:
    """Without what each side counts for itself, keys in order, values of Secrets as digests."""
    found: dict[str, Any] = copy.deepcopy(item)
    metadata = found.get("metadata")
    if isinstance(metadata, dict):
        for own in OWN:
            metadata.pop(own, None)
        noted = metadata.pop("annotations", None) or {}
        kept = {name: value for name, value in noted.items() if not _is_noted(name)}
        if kept:
            metadata["annotations"] = kept
    found.pop("status", None)
    if found.get("kind") == "Secret":
        for part in ("data", "stringData"):
            if isinstance(found.get(part), dict):
                found[part] = {name: _hidden(value, key) for name, value in found[part].items()}
    ordered = _ordered(found)
    assert isinstance(ordered, dict)
    return ordered


def _is_noted(name: str) -> bool:
    """Said to the hub, or added by the agent when it is asked (age, version), or by kubectl: no content."""
    return name.startswith("fairlead.dev/") or name == APPLIED


def _hidden(value: Any, key: bytes) -> str:
    text = str(value)
    try:
        content = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        content = text.encode()
    digest = hashlib.blake2b(content, key=key).hexdigest()[:HIDDEN_CHARS]
    return f"(hidden: {len(content)} bytes, digest {digest})"


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value
