"""`fairlead token`: which commands it has."""

from __future__ import annotations

from click.testing import CliRunner

from fairlead_cli.main import build


def test_its_commands() -> None:
    """What it is for, and one line for each command."""
    done = CliRunner().invoke(build(), ["token", "--help"])
    assert done.exit_code == 0 and "fairlead edge join" in done.stdout
    commands = done.stdout.partition("Commands:\n")[2].split("\n")
    assert [line.split()[0] for line in commands if line] == ["create", "list", "revoke"]
