"""Names for the shell: in time, or none."""

from __future__ import annotations

import threading

import click
import pytest

from fairlead_cli import completing


def test_names_sorted_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the answer held; a busy machine may take longer than the usual limit to start a thread."""
    monkeypatch.setenv(completing.VARIABLE, "100")
    assert completing.within(lambda: ["b", "a", "b"]) == ["a", "b"]
    assert [item.value for item in completing.beginning("e", ["edge-1", "x"])] == ["edge-1"]


@pytest.mark.parametrize("error", [OSError("away"), click.ClickException("no"), SystemExit(1), KeyError("items")])
def test_what_goes_wrong_is_silent(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    def ask() -> list[str]:
        raise error

    assert completing.within(ask) == []
    assert capsys.readouterr() == ("", "")


def test_it_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setenv(completing.VARIABLE, "0.05")
    assert completing.within(lambda: [str(never.wait(300))]) == []
    never.set()
    monkeypatch.setenv(completing.VARIABLE, "soon")
    assert completing.limit() == completing.SECONDS


def test_what_stands_on_the_line() -> None:
    above = click.Context(click.Command("topics"))
    above.params = {"url": "http://a", "config": None}
    below = click.Context(click.Command("tail"), parent=above)
    below.params = {"limit": 1}
    assert [completing.given(below, name) for name in ("url", "config", "limit", "x")] == ["http://a", None, 1, None]
