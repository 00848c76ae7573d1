"""Long work says how far it is: counts, a rate and what is left."""

from __future__ import annotations

import io

from fairlead_cli.output.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_line_each_ten_seconds_without_a_terminal() -> None:
    """With counts, share, rate and an estimate; the beginning and the end are printed, too."""
    stream, clock = io.StringIO(), Clock()
    with ProgressBar("backfilling telemetry", stream=stream, clock=clock) as progress:
        progress.expect(80_000)
        for _ in range(25):
            clock.now += 1
            progress.add(1200)
    assert stream.getvalue().splitlines() == [
        "backfilling telemetry …",
        "backfilling telemetry: 12,000 of 80,000 (15 %), 1,200/s, about 57 s left",
        "backfilling telemetry: 24,000 of 80,000 (30 %), 1,200/s, about 47 s left",
        "backfilling telemetry: 30,000 in 25 s",
    ]


def test_what_passes_leaves_a_terminal_as_it_was() -> None:
    for stream, steps in ((Terminal(), 1), (io.StringIO(), 1), (io.StringIO(), 15)):
        clock = Clock()
        with ProgressBar("looking", passing=True, stream=stream, clock=clock) as progress:
            for _ in range(steps):
                clock.now += 1
                progress.add(10)
        if stream.isatty():
            assert stream.getvalue().startswith("\r\x1b[Klooking …") and stream.getvalue().endswith("\r\x1b[K")
        else:
            said = ["looking: 20, 10/s", "looking: 120, 10/s"] if steps > 1 else []
            assert stream.getvalue().splitlines() == said


def test_one_line_that_renews_itself_on_a_terminal() -> None:
    stream, clock = Terminal(), Clock()
    with ProgressBar("compacting t", 2, stream=stream, clock=clock) as progress:
        progress.advance()
        clock.now += 4
        progress.advance()
    assert stream.getvalue() == (
        "\r\x1b[Kcompacting t …\r\x1b[Kcompacting t: 2 of 2 (100 %), 0.5/s\r\x1b[Kcompacting t: 2 in 4.0 s\n"
    )


def test_what_failed_says_how_far_it_was() -> None:
    stream, clock = io.StringIO(), Clock()
    try:
        with ProgressBar("x", stream=stream, clock=clock) as progress:
            progress.add(3)
            raise OSError
    except OSError:
        pass
    assert stream.getvalue().splitlines()[-1] == "x: 3, 0.0/s"
