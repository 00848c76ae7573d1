"""The shape of a route manifest, which API server and agent share."""

from __future__ import annotations

import re
from typing import Any

from fairlead_edge.outbox import manifest
from fairlead_edge.outbox.queues import DEFAULT_PRIORITY
from fairlead_edge.routes import compiler
from fairlead_wire.validation import route_manifest


def test_the_agent_has_its_limits_from_here() -> None:
    """One number, not two that agree today."""
    assert route_manifest.ROUTES_MAX == 1024
    assert DEFAULT_PRIORITY is route_manifest.DEFAULT_PRIORITY > route_manifest.PRIORITY_MAX
    assert compiler.TEXT_CHARS_MAX is route_manifest.TEXT_CHARS_MAX


def test_versions_of_an_object_are_versions_of_a_manifest() -> None:
    """1.0 is one of the latter alone."""
    for version in ("1.0", "1.1", "1.3", "1.3.0.1", "1.4", "2.1"):
        is_one = re.fullmatch(route_manifest.OBJECT_VERSION, version) is not None
        spec: dict[str, Any] = {"schemaVersion": version, "routes": {}, "storeAndForwardConfiguration": {}}
        try:
            manifest.parse(spec)
        except manifest.ManifestError:
            assert not is_one
        else:
            assert is_one is (version != "1.0")
