"""The shape of a route manifest, which API server and agent share."""

from __future__ import annotations

import re
from typing import Any

from fairlead_edge.outbox import manifest
from fairlead_wire.validation import route_manifest


def test_versions_of_an_object_are_versions_of_a_manifest() -> None:
    for version in ("1.0", "1.1", "1.3", "1.3.0.1", "1.4", "2.1"):
        is_one = re.fullmatch(route_manifest.OBJECT_VERSION, version) is not None
        spec: dict[str, Any] = {"schemaVersion": version, "routes": {}, "storeAndForwardConfiguration": {}}
        try:
            manifest.parse(spec)
        except manifest.ManifestError:
            assert not is_one
        else:
            assert is_one is (version != "1.0")
