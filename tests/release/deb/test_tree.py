"""Names and numbers in the package for Debian."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from release.deb import tree

SUFFIX = f"+py{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.process
@pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is not here")
@pytest.mark.parametrize(("older", "newer"), [("0.2.0rc1", "0.2.0"), ("0.2.0a1", "0.2.0rc1"), ("0.9.0", "0.10.0")])
def test_dpkg_orders_versions_as_we_do(older: str, newer: str) -> None:
    compared = [tree.debian_version(older), "lt", tree.debian_version(newer)]
    assert subprocess.run(["dpkg", "--compare-versions", *compared]).returncode == 0, compared


def test_the_version_says_which_python_it_is_for() -> None:
    """A system with a newer Python gets the newer package, so that an upgrade of the system brings it along."""
    assert tree.debian_version("0.2.0") == "0.2.0" + SUFFIX


def test_program_runs_with_its_own_packages_alone() -> None:
    """Neither PYTHONPATH nor packages of the system may change the agent."""
    assert (tree.FILES / "fairlead").read_text().startswith("#!/usr/bin/python3 -IS\n")
