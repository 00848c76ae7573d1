"""The workflows: what they run is there, each job ends some time, and none may write.

The schema of workflows is asked by the workflow itself (job `workflows`); this is what no schema knows.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
MINUTES_MAX = 120
MAKE = re.compile(r"(?:^|[;&|]\s*|sudo |=\S+ )make ([a-z0-9-]+)", re.MULTILINE)
"""A call of make, where a command may stand."""
every_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job["steps"]]


@every_workflow
def test_each_job_ends_and_names_its_machine(path: Path) -> None:
    """A job that hangs would hold up the others for six hours; `latest` is another machine from one day to the next."""
    for name, job in jobs(path).items():
        assert 0 < job["timeout-minutes"] <= MINUTES_MAX, name
        assert re.fullmatch(r"ubuntu-\d\d\.\d\d(-arm)?", job["runs-on"]), name


@every_workflow
def test_what_is_used_has_a_version(path: Path) -> None:
    """A tag or a commit, never a branch."""
    for step in steps(path):
        assert ("uses" in step) != ("run" in step), step
        if "uses" in step:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@(v\d[\w.]*|[0-9a-f]{40})", step["uses"]), step["uses"]


@every_workflow
def test_make_targets_and_programs_of_ours_exist(path: Path) -> None:
    """Each `make WORD`, and each file of the project that a step starts."""
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for step in steps(path):
        text = step.get("run", "")
        assert set(MAKE.findall(text)) <= targets, text
        for file in re.findall(r"(?:^|\s)(\.ci/\w+)", text):
            assert os.access(ROOT / file, os.X_OK), file


def test_the_gate_of_every_change_writes_nothing_and_demands_its_tools() -> None:
    """Read access alone; Chromium and Prometheus are installed before the tests that need them and may not skip."""
    whole = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())
    assert whole["permissions"] == {"contents": "read"}
    test = [step.get("run", "") for step in whole["jobs"]["test"]["steps"]]
    assert test.index("sudo make tools") < test.index(".ci/run")
    [gate] = [step for step in whole["jobs"]["test"]["steps"] if step.get("run") == ".ci/run"]
    assert gate["env"]["FAIRLEAD_TOOLS"] == "required"
