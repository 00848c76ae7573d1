"""How much memory a program and its children hold, Java and Python apart, by proportional set size."""

from __future__ import annotations

import contextlib
import statistics
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.ingest.pipelines import family

SAMPLE_SECONDS = 0.5


@dataclass
class ProcessMemory:
    """Largest sizes seen, and all samples (Java, Python), in MiB."""

    java: float = 0.0
    python: float = 0.0
    samples: list[tuple[float, float]] = field(default_factory=list)

    def text(self) -> str:
        """The second half beside the first shows whether it grows."""
        middle = len(self.samples) // 2
        first, second = (
            statistics.median(sum(each) for each in part) if part else 0.0
            for part in (self.samples[:middle], self.samples[middle:])
        )
        return (
            f"memory: Java {self.java:,.0f} MiB, Python {self.python:,.0f} MiB at most; together, median of the first"
            f" half {first:,.0f} MiB, of the second {second:,.0f} MiB"
        )


@contextlib.contextmanager
def watching(pid: int) -> Iterator[ProcessMemory]:
    """Sampled every half second until the end of the block."""
    memory, ended = ProcessMemory(), threading.Event()
    thread = threading.Thread(target=_watch, args=(pid, memory, ended))
    thread.start()
    try:
        yield memory
    finally:
        ended.set()
        thread.join()


def _watch(pid: int, memory: ProcessMemory, ended: threading.Event) -> None:
    while not ended.wait(SAMPLE_SECONDS):
        java = python = 0.0
        for each in family(pid):
            with contextlib.suppress(OSError, ValueError):
                size = _proportional(each)
                if Path(f"/proc/{each}/comm").read_text().strip() == "java":
                    java += size
                else:
                    python += size
        memory.java, memory.python = max(memory.java, java), max(memory.python, python)
        memory.samples.append((java, python))


def _proportional(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0
