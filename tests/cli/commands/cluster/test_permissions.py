"""The role on the page of the plugin is enough for the commands that it lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.support import pages
from tests.support.kube.api_in_memory import ApiInMemory

from fairlead_cli.main import build
from fairlead_wire.objects import api_group

PAGE = Path(__file__).parents[4] / "docs" / "howto" / "use-the-kubectl-plugin.md"
FOR_EVERYONE = ("version", "api/v1", api_group.ROOT)
"""Version and discovery: the API server's own roles grant them to every user."""
ONLY_IF_ALLOWED = {"secrets", "clusterroles", "clusterrolebindings"}
"""What `doctor` leaves out for users who may not read it."""


class Recorder(ApiInMemory):
    """Notes what is read."""

    def __init__(self) -> None:
        node = {"metadata": {"name": "edge-1", "labels": {api_group.EDGE_LABEL: ""}}}
        super().__init__({"api/v1/nodes": [node], f"{api_group.ROOT}/edgenodes": [node]})
        self.read: set[str] = set()

    async def get(self, path: str, **headers: str) -> bytes:
        self.read.add(path.split("?")[0])
        if path == "version":
            return b'{"gitVersion": "v1.34.0"}'
        return await super().get(path, **headers)


def role() -> set[tuple[str, str]]:
    """(group, plural) that the page's role lets a user get and list."""
    [block] = [each for each in pages.blocks(PAGE, PAGE.read_text()) if "kind: ClusterRole" in each.text]
    rules: list[dict[str, Any]] = yaml.safe_load(block.text)["rules"]
    return {
        (group, plural)
        for rule in rules
        if {"get", "list"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }


def resource(path: str) -> tuple[str, str]:
    """Group and plural of a path below api/v1 or apis/GROUP/VERSION."""
    parts = path.split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    return group, rest[0]


@pytest.mark.parametrize(
    "line",
    [
        *("nodes", "status", "status edge-1", "objects edge-1", "objects -A", "events", "routes", "routes --by-node"),
        *("top nodes", "top queues", "explain configmap/a --node edge-1", "explain configmap/a --node edge-9"),
        *("rollout configmap/a --no-watch", "doctor --cluster", "logs hub"),
    ],
)
def test_a_viewer_may_read_what_a_command_reads(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRLEAD_HUB_URL", raising=False)
    api = Recorder()
    api.is_asked(monkeypatch)
    done = CliRunner().invoke(build(), [*line.split()])
    assert api.read, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    asked = {resource(path) for path in api.read - set(FOR_EVERYONE)}
    assert {each for each in asked if each[1] not in ONLY_IF_ALLOWED} <= role()
