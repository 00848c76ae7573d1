"""The group that programs name is the one that the definitions make."""

from __future__ import annotations

from pathlib import Path

import yaml

from fairlead_wire.objects import api_group

CRDS = Path(__file__).resolve().parents[3] / "crds"


def test_the_definitions_are_of_this_group_and_version() -> None:
    found = [yaml.safe_load(path.read_text())["spec"] for path in CRDS.glob("*.yaml")]
    assert {(spec["group"], *(each["name"] for each in spec["versions"])) for spec in found} == {
        (api_group.GROUP, api_group.VERSION)
    }
