"""`fairlead completion`: scripts that shells take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead_cli.main import build


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str) -> None:
    """It asks the program itself, which answers for the variable named in it."""
    script = CliRunner().invoke(build(), ["completion", shell]).stdout
    assert f"_FAIRLEAD_COMPLETE={shell}_complete" in script and "fairlead" in script


@pytest.mark.process
def test_bash_completes(tmp_path: Path) -> None:
    program = tmp_path / "fairlead"
    program.write_text(f"#!{sys.executable}\nfrom fairlead_cli.main import main\nmain()\n")
    program.chmod(0o755)
    script = CliRunner().invoke(build(), ["completion", "bash"]).stdout
    ask = 'COMP_WORDS=(fairlead topi); COMP_CWORD=1; _fairlead_completion fairlead; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.stdout.strip() == "topics"
