"""`make packages` as a program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from release import __main__ as program

pytestmark = pytest.mark.process


def test_a_tag_of_another_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is built or removed."""
    (tmp_path / "kept").write_text("x")
    assert program.main(["--target", str(tmp_path), "--tag", "v9.9.9"]) == 1
    assert "the tag is v9.9.9, but pyproject.toml says" in capsys.readouterr().err
    assert (tmp_path / "kept").exists()


def test_what_is_no_release_is_never_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt --target must not cost anybody their files."""
    (tmp_path / "thesis.txt").write_text("years of work")
    assert program.main(["--target", str(tmp_path)]) == 1
    assert "holds something else than a release" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.verify
def test_everything_is_there_and_the_checksums_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "dist"
    assert program.main(["--target", str(target)]) == 0
    names = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert names == {path.name for path in target.iterdir()}
    assert {program.SUMS, program.PROVENANCE} < names
    assert {".whl", ".gz", ".tgz"} <= {Path(name).suffix for name in names}
    done = subprocess.run(["sha256sum", "--quiet", "--check", program.SUMS], cwd=target, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
