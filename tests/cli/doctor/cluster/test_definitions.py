"""Definitions: not installed, of another version, of another release, as they should be."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fairlead_cli.doctor.cluster import installation
from fairlead_hub.cluster.custom_resources import definitions as ours

ONE = next(each for each in ours.ALL if each.kind == "EdgeNode").document()


def judged(found: list[dict[str, Any]]) -> tuple[str, str]:
    [finding] = installation.judge_definitions([ONE], found)
    return finding.level, finding.message


def test_installed_and_missing() -> None:
    """The same document, and none."""
    assert judged([ONE])[0] == "ok"
    assert judged([]) == ("problem", "edgenodes.fairlead.dev is not installed")


def test_other_versions_and_releases() -> None:
    """A field the API server would drop is a problem; one more there is a warning."""
    other, older, newer, taken = (copy.deepcopy(ONE) for _ in range(4))
    other["spec"]["versions"][0]["name"] = "v1"
    assert "serves v1, and this program speaks v1alpha1" in judged([other])[1]
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["paused"]
    assert judged([older]) == ("problem", "edgenodes.fairlead.dev is of another release: it lacks .status.paused")
    newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = {"type": "string"}
    assert judged([newer])[0] == "warning"
    taken["status"] = {"conditions": [{"type": "NamesAccepted", "status": "False", "message": "enode is taken"}]}
    assert judged([taken]) == ("problem", "edgenodes.fairlead.dev is not NamesAccepted: enode is taken")


@pytest.mark.parametrize(("minor", "level"), [("29+", "problem"), ("32", "ok"), ("", "ok")])
def test_the_server(minor: str, level: str) -> None:
    """Too old is a problem; what cannot be read is shown as it is."""
    assert installation.judge_server({"gitVersion": "v1.x", "major": "1", "minor": minor}).level == level
