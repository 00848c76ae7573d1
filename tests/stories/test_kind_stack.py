"""`make up KIND=1` and `make down`, with a program in kind's place that says what it was asked.

Where there is a container engine, `make e2e-kind` runs the real kind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.demo import kind
from e2e.demo.stack import ROOT

pytestmark = pytest.mark.process

KIND = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked"
case "$1 $2" in
"create cluster") [ -e "$(dirname "$0")/no-engine" ] && { echo "ERROR: failed to get docker info" >&2; exit 1; }
    while [ "$1" != --kubeconfig ]; do shift; done; echo "{}" > "$2"; touch "$(dirname "$0")/there" ;;
"export kubeconfig") while [ "$1" != --kubeconfig ]; do shift; done; echo "{}" > "$2" ;;
"get clusters") [ -e "$(dirname "$0")/there" ] && echo fairlead-up || echo "No kind clusters found." >&2 ;;
"delete cluster") rm -f "$(dirname "$0")/there" ;;
esac
"""


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with that program, first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kind").write_text(KIND)
    (folder / "kind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def asked(folder: Path) -> list[str]:
    """What kind was asked, without kubeconfigs."""
    return [line.partition(" --kubeconfig")[0] for line in (folder / "asked").read_text().splitlines()]


def test_a_cluster_is_made_once_used_again_and_deleted(bin_: Path, tmp_path: Path) -> None:
    """`make down` deletes only what `make up KIND=1` made here."""
    assert not kind.remove(tmp_path)
    assert kind.provide(tmp_path).read_text() == "{}\n"
    assert kind.provide(tmp_path).is_file()
    assert kind.remove(tmp_path) and not kind.remove(tmp_path)
    assert asked(bin_) == [
        "get clusters",
        "create cluster --name fairlead-up",
        "get clusters",
        "export kubeconfig --name fairlead-up",
        "delete cluster --name fairlead-up",
    ]


def test_without_an_engine_the_reason_is_one_sentence(bin_: Path, tmp_path: Path) -> None:
    """What kind said, and what to do."""
    (bin_ / "no-engine").touch()
    with pytest.raises(kind.NoKind, match=r"failed to get docker info; is a container engine .* running"):
        kind.provide(tmp_path)


@pytest.mark.parametrize(("arguments", "said"), [
    (["up", "--kind"], "needs kind and found none; install kind"),
    (["play", "--kind"], "--kind goes with up"),
    (["up", "--kind", "--kubeconfig", "/dev/null"], "--kind goes with up"),
])  # fmt: skip
def test_the_stack_without_kind_is_one_sentence(arguments: list[str], said: str, tmp_path: Path) -> None:
    """And no trace."""
    done = subprocess.run(
        [sys.executable, "-m", "e2e.demo", *arguments, "--folder", str(tmp_path / "demo")],
        cwd=ROOT, env={**os.environ, "PATH": "/nowhere"}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (1, 2) and said in done.stderr and "Traceback" not in done.stderr
