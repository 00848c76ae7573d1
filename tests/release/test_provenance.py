"""The statement and the checksums of a release."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from release.source import Source

from release import provenance, source

SOURCE = Source(root=source.ROOT, version="1.2.3", epoch=86400, commit="c" * 40, changed=True)
WORKFLOW = {
    "GITHUB_SERVER_URL": "https://git.example",
    "GITHUB_REPOSITORY": "o/fairlead",
    "GITHUB_WORKFLOW_REF": "o/fairlead/.github/workflows/release.yaml@refs/tags/v1.2.3",
    "GITHUB_REF": "refs/tags/v1.2.3",
}


def test_statement_names_each_file_the_source_and_the_builder(tmp_path: Path) -> None:
    """The fields that SLSA v1 demands, and what a reader needs to build it again."""
    made = tmp_path / "thing.whl"
    made.write_bytes(b"x")
    said = json.loads(provenance.statement(SOURCE, [made], WORKFLOW))
    assert (said["_type"], said["predicateType"]) == (provenance.STATEMENT, provenance.PREDICATE)
    assert said["subject"] == [{"name": "thing.whl", "digest": {"sha256": provenance.digest(made)}}]
    definition, run = said["predicate"]["buildDefinition"], said["predicate"]["runDetails"]
    assert run["builder"]["id"] == "https://git.example/" + WORKFLOW["GITHUB_WORKFLOW_REF"]
    assert definition["resolvedDependencies"][0]["digest"] == {"gitCommit": "c" * 40}
    assert definition["externalParameters"] == {"ref": "refs/tags/v1.2.3", "version": "1.2.3"}
    assert definition["internalParameters"]["sourceHasUncommittedChanges"] is True


def test_a_desk_is_no_workflow(tmp_path: Path) -> None:
    """Built by hand it says so, and the same twice."""
    assert provenance.statement(SOURCE, [], {}) == provenance.statement(SOURCE, [], {})
    assert json.loads(provenance.statement(SOURCE, [], {}))["predicate"]["runDetails"]["builder"] == {
        "id": provenance.DESK
    }


@pytest.mark.process
def test_checksums_are_read_by_sha256sum(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    (tmp_path / "SHA256SUMS").write_text(provenance.checksums([tmp_path / "b", tmp_path / "a"]))
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "a: OK\nb: OK\n"), done.stderr
