#!/usr/bin/env python3
"""`make demo` on a new machine: install the packages and build the Kubernetes programs at the same time.

    prepare.py PROGRAM…
        make dev                                  ─┐
        e2e/controlplane/build.py etcd             ├─ one bar of all
        e2e/controlplane/build.py kube-apiserver … ─┘

Fetching packages waits for the network while compilers wait for the processor, so both together end earlier than one
after the other; so do builds of independent modules, since each ends with a linker on one core.  Plain Python,
standard library only: it runs before there is a virtual environment.  On a terminal one line is updated, elsewhere
a line is printed every half minute; the output of a step is shown if it fails.  Java, which Spark needs later, is
checked first.  Exit 0 on success, else 1.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from e2e.controlplane import build  # noqa: E402 - found only now
from e2e.demo.java import Missing, require_java  # noqa: E402
from requirements.install import pinned  # noqa: E402

LOCK = ROOT / "requirements" / "dev.lock"
VENV = ROOT / ".venv"
INSTALL_SECONDS = 80
"""Measured on two cores; the weight of the packages beside the seconds of `build.PROGRAMS`."""
LINE_SECONDS = 30.0
POLL_SECONDS = 0.5
BAR_CELLS = 24
TAIL_CHARS = 4000


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress: `done` of `total` seconds of measured work, and the current step."""

    done: float
    total: float
    doing: str

    @property
    def share(self) -> float:
        """0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 1.0


@dataclass(kw_only=True)
class Chain:
    """Programs of one Go module, built one after the other: each uses what the one before compiled."""

    missing: Sequence[str]
    built: tuple[str, ...] = ()
    seen: build.Compilation = field(default_factory=build.Compilation)
    """Of the current one."""

    def done(self) -> float:
        """Seconds of work, as measured on two cores."""
        sure = sum(build.PROGRAMS[name].seconds for name in self.built)
        return sure + (self.seen.share * build.PROGRAMS[self.current].seconds if self.current else 0.0)

    @property
    def total(self) -> float:
        """The same for all of them."""
        return sum(build.PROGRAMS[name].seconds for name in self.missing)

    @property
    def current(self) -> str:
        """What is being built; empty when all are."""
        return next((name for name in self.missing if name not in self.built), "")


def chains(missing: Sequence[str]) -> list[Chain]:
    """By Go module, in the order of their first program."""
    modules = dict.fromkeys(build.PROGRAMS[name].module for name in missing)
    return [Chain(missing=[name for name in missing if build.PROGRAMS[name].module == module]) for module in modules]


def progress(packages: tuple[int, int], builds: Sequence[Chain]) -> Progress:
    """Of `packages` (installed, wanted) and of what is built beside them."""
    installed, wanted = packages
    doing = [f"packages {min(installed, wanted)} of {wanted}"] if installed < wanted else []
    doing += [f"{each.current}: {each.seen}" for each in builds if each.current]
    return Progress(
        done=INSTALL_SECONDS * min(1.0, installed / wanted) + sum(each.done() for each in builds),
        total=INSTALL_SECONDS + sum(each.total for each in builds),
        doing=", ".join(doing),
    )


def line(seen: Progress, seconds: float, columns: int | None = None) -> str:
    """One line for people, cut to the terminal's `columns`, because a wrapped line cannot be updated."""
    full = round(BAR_CELLS * seen.share)
    left = build.remaining(seen.share, seconds)
    words = ", ".join(filter(None, [left, seen.doing]))
    text = f"{'█' * full}{'░' * (BAR_CELLS - full)} {seen.share:4.0%}  {seconds:3.0f} s  {words}"
    return text if columns is None or len(text) < columns else f"{text[: max(0, columns - 2)]}…"


def installed_packages() -> int:
    """Completely installed packages: pip writes their metadata last."""
    return sum(1 for _ in VENV.glob("lib/python3.*/site-packages/*.dist-info"))


@dataclass(kw_only=True)
class Step:
    """One running step; its output goes to a file."""

    name: str
    command: Sequence[str]
    words: tempfile._TemporaryFileWrapper[bytes] = field(default_factory=tempfile.NamedTemporaryFile)
    process: subprocess.Popen[bytes] | None = None

    def start(self, *, shown: bool = False) -> Step:
        """A session of its own, so that an interrupt here ends it once and whole; `shown`: it speaks for itself."""
        words = None if shown else self.words
        self.process = subprocess.Popen(
            self.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True
        )
        return self

    def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        assert self.process is not None
        return self.process.wait()

    def code(self) -> int | None:
        """None while it runs."""
        assert self.process is not None
        return self.process.poll()

    def end(self) -> None:
        """Send SIGTERM to its process group, and wait."""
        assert self.process is not None
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()

    def tail(self) -> str:
        """The end of its output."""
        return Path(self.words.name).read_text(errors="replace")[-TAIL_CHARS:]


def follow(steps: Sequence[Step], builds: Sequence[Chain], folder: Path) -> int:
    """Wait for all steps and show progress; stop waiting when one fails."""
    renews = sys.stderr.isatty()
    started = said = time.monotonic()
    wanted = pinned(LOCK)
    while True:
        codes = [step.code() for step in steps]
        now = time.monotonic()
        for each in builds:
            each.built = tuple(name for name in each.missing if build.is_program(folder / name))
            each.seen = build.compilation(each.current, folder)
        over = all(code is not None for code in codes) or any(codes)
        if over or now - said >= (POLL_SECONDS if renews else LINE_SECONDS):
            said = now
            columns = shutil.get_terminal_size().columns if renews else None
            text = line(progress((installed_packages(), wanted), builds), now - started, columns)
            sys.stderr.write(f"\r\x1b[K{text}" if renews else f"prepare: {text}\n")
            sys.stderr.flush()
        if over:
            break
        time.sleep(POLL_SECONDS)
    if renews:
        print(file=sys.stderr)
    failed = [step for step, code in zip(steps, codes, strict=True) if code]
    for step in failed:
        print(f"{step.tail()}prepare: {step.name} failed", file=sys.stderr)
    return 1 if failed else 0


def absent(names: Sequence[str]) -> tuple[list[str], Path]:
    """The programs that have to be built, and the folder in which they will appear."""
    given = build.assets_of(os.environ)
    folder = build.cache_root(os.environ) / build.fingerprint()
    places = [each for each in (given, folder) if each is not None]
    return [name for name in names if not any(build.is_program(place / name) for place in places)], folder


def main(arguments: Sequence[str]) -> int:
    """Run as a program; see the module's docstring."""
    names = build.parse(arguments)
    build.end_as_by_ctrl_c()
    try:
        require_java()
        missing, folder = absent(names)
    except (Missing, build.BuildError) as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 1
    builds = chains(missing)
    steps = [Step(name="make dev", command=["make", "--no-print-directory", "dev"])]
    for each in builds:
        command = [sys.executable, str(build.HERE / "build.py"), *each.missing]
        steps.append(Step(name=f"building {' and '.join(each.missing)}", command=command))
    try:
        if not missing:
            return steps[0].start(shown=True).wait()
        print(f"prepare: building {', '.join(missing)}: {build.WHY}; kept in {folder}", file=sys.stderr)
        for step in steps:
            step.start()
        return follow(steps, builds, folder)
    except KeyboardInterrupt:
        # What follows is short; a second Ctrl-C would only leave something running.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("\nprepare: interrupted; what was finished is kept", file=sys.stderr)
        return 130
    finally:
        for step in steps:
            if step.process is not None:
                step.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
