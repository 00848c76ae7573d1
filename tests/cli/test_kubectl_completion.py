"""What kubectl is answered when it completes a line of the plugin's; test_golden.py asks by the real kubectl."""

from __future__ import annotations

import pytest

from fairlead_cli import kubectl_completion


def test_commands_with_their_help() -> None:
    lines = kubectl_completion.answer(["topi"])
    assert lines[-1] == ":4" and lines[0].split("\t")[0] == "topics" and lines[0].split("\t")[1]


def test_options_and_their_values() -> None:
    """Also behind a command that is left out; a value that goes on gets no blank."""
    watch = "--watch\tThen print a line for each change, until interrupted."
    assert watch in kubectl_completion.answer(["nodes", "--"])
    assert kubectl_completion.answer(["nodes", "-o", "js"]) == ["json", "jsonpath=", ":4"]
    assert kubectl_completion.answer(["nodes", "-o", "jsonp"]) == ["jsonpath=", ":6"]
    assert kubectl_completion.answer(["routes", "-o", "ya"]) == ["yaml", ":4"]


def test_files() -> None:
    assert kubectl_completion.answer(["routes", "check", ""])[-1] == ":0"


def test_nothing_at_all() -> None:
    """kubectl gives at least the unfinished word; without it the commands are listed."""
    assert any(line.startswith("nodes\t") for line in kubectl_completion.answer([]))


def test_the_program_ends_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    monkeypatch.setattr("sys.argv", ["kubectl_complete-fairlead", "topi"])

    def broken(_: object) -> list[str]:
        raise RuntimeError("broken")

    monkeypatch.setattr(kubectl_completion, "answer", broken)
    kubectl_completion.main()
    assert ended == [0] and capsys.readouterr().out == ":4\n"
