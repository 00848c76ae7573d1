"""The output of the demo: chapters, facts and waits, in colour on a terminal and plain elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from tests.support.processes import wait_until

T = TypeVar("T")

PLAIN_PROGRESS_SECONDS = 10.0
PLAIN_WIDTH = 160


class Screen:
    """The output of one run; every line shows the seconds since it began."""

    def __init__(self, chapters: int = 0) -> None:
        """`chapters`: their total number; each shows its own."""
        self._chapters = chapters
        self._chapter = 0
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console = Console(highlight=False, width=PLAIN_WIDTH)
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._started

    def chapter(self, title: str) -> None:
        """Begin a new part of the story."""
        self._chapter += 1
        self._console.print()
        number = ""
        if self._chapter <= self._chapters:
            bar = "■" * self._chapter + "□" * (self._chapters - self._chapter)
            number = f"{bar} {self._chapter}/{self._chapters}  "
        self._console.rule(f"{number}[bold]{title}[/bold]", align="left", characters="─")

    def say(self, text: str) -> None:
        """Print one fact."""
        self._console.print(f"[dim]{self.seconds:6.1f} s[/dim]  {text}", soft_wrap=True)

    def fail(self, text: str) -> None:
        """Print why it failed, without markup, because logs may contain brackets."""
        self._console.print(text, markup=False, soft_wrap=True, style="red")

    def quote(self, text: str) -> None:
        """Print the output of a tool unchanged."""
        for line in text.rstrip().splitlines():
            self._console.print(f"          {line}", markup=False, soft_wrap=True)

    def last(self, text: str) -> None:
        """Print the final line without decoration, for people and scripts."""
        self._console.print(text, markup=False, soft_wrap=True)

    def table(self, title: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
        """Print figures in columns; the first column is text, the others are numbers."""
        table = Table(title=title, title_justify="left", title_style="bold")
        for number, name in enumerate(head):
            table.add_column(name, justify="left" if number == 0 else "right")
        for line in lines:
            table.add_row(*line)
        self._console.print(table)

    def wait(
        self,
        what: str,
        condition: Callable[[], T],
        *,
        seconds: float,
        every: float = 0.2,
        progress: Callable[[], str] = lambda: "",
        describe: Callable[[], str] = lambda: "",
    ) -> T:
        """Wait for a condition with a deadline, showing the progress; returns the condition's value."""
        started = time.monotonic()
        printed = started

        def text() -> str:
            return f"waiting until {what} ({time.monotonic() - started:.0f} s of at most {seconds:g}) {progress()}"

        if self._console.is_terminal:
            with self._console.status(text()) as status:

                def ask() -> T:
                    status.update(text())
                    return condition()

                return wait_until(what, ask, seconds=seconds, every=every, describe=describe)

        def ask_plainly() -> T:
            nonlocal printed
            if time.monotonic() - printed >= PLAIN_PROGRESS_SECONDS:
                printed = time.monotonic()
                self.say(text())
            return condition()

        return wait_until(what, ask_plainly, seconds=seconds, every=every, describe=describe)
