"""Two versions of an object as a unified diff of YAML; of Secrets the values are compared and never shown."""

from __future__ import annotations

import base64
import binascii
import copy
import difflib
import hashlib
from typing import Any, Final

from fairlead_cli.output import yaml_text

OWN: Final = ("resourceVersion", "managedFields", "generation", "creationTimestamp", "selfLink")
"""Of metadata: what each side counts for itself."""
HIDDEN_CHARS: Final = 12


def unified(cluster: dict[str, Any] | None, edge: dict[str, Any] | None, names: tuple[str, str]) -> list[str]:
    """Lines from what the cluster has to what the edge has; none when they say the same."""
    before, after = (
        [] if each is None else yaml_text.text_of(comparable(each)).splitlines() for each in (cluster, edge)
    )
    return list(difflib.unified_diff(before, after, *names, lineterm=""))


def comparable(item: dict[str, Any]) -> dict[str, Any]:
    """Without what each side counts for itself, keys in order, values of Secrets as digests."""
    found: dict[str, Any] = copy.deepcopy(item)
    metadata = found.get("metadata")
    if isinstance(metadata, dict):
        for key in OWN:
            metadata.pop(key, None)
        noted = metadata.pop("annotations", None) or {}
        kept = {key: value for key, value in noted.items() if not _is_noted(key)}
        if kept:
            metadata["annotations"] = kept
    found.pop("status", None)
    if found.get("kind") == "Secret":
        for key in ("data", "stringData"):
            if isinstance(found.get(key), dict):
                found[key] = {name: _hidden(value) for name, value in found[key].items()}
    ordered = _ordered(found)
    assert isinstance(ordered, dict)
    return ordered


def _is_noted(key: str) -> bool:
    """Said to the hub, or added by the agent when it is asked (age, version): no content."""
    return key.startswith("fairlead.dev/")


def _hidden(value: Any) -> str:
    text = str(value)
    try:
        content = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        content = text.encode()
    return f"(hidden: {len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()[:HIDDEN_CHARS]})"


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value
