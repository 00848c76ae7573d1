"""Our definitions without their checks, for objects that were stored before these checks existed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

REFUSALS = ("x-kubernetes-validations", "anyOf", "pattern", "x-kubernetes-preserve-unknown-fields")
FREE_FORM = ("routes", "storeAndForwardConfiguration")
"""Kept as they are: they were never checked."""


def lax(crds: Path, plural: str) -> dict[str, Any]:
    """The definition of ``plural``, without its checks."""
    for file in sorted(crds.glob("*.yaml")):
        found: dict[str, Any] = yaml.safe_load(file.read_text())
        if found["spec"]["names"]["plural"] == plural:
            for version in found["spec"]["versions"]:
                spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
                _loosen(spec)
                if "routes" in spec["properties"]:
                    spec["properties"]["routes"]["additionalProperties"] = {REFUSALS[-1]: True}
                    spec["required"] = ["routes"]
            return found
    raise LookupError(plural)


def _loosen(schema: Any) -> None:
    if isinstance(schema, list):
        for each in schema:
            _loosen(each)
    elif isinstance(schema, dict):
        for word in REFUSALS:
            schema.pop(word, None)
        for key, each in schema.items():
            if key not in FREE_FORM:
                _loosen(each)
