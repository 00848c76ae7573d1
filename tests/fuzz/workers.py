"""Slices of the search in separate processes, one per core: a crash or a hang ends its slice and is a finding.

A process writes each input into shared memory before it tries it, so that the input of a dead or hanging process is
known.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from tests.fuzz import limits
from tests.fuzz.search import Slice, search
from tests.fuzz.target import INPUT_BYTES_MAX, Finding, Target

SILENT_SECONDS_MAX = 60.0
"""By which a process that still tries the same input is ended: the timer of ``limits`` did not reach it."""
_HEAD_BYTES = 16


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    shared: mmap.mmap
    target: Target
    last: bytes = b""
    since: float = field(default_factory=time.monotonic)


def run(slices: Sequence[tuple[Target, str, float]], cores: int) -> Iterator[tuple[Target, Slice]]:
    """The result of each slice (target, seed, seconds), as they end."""
    context = multiprocessing.get_context("fork")  # all that is imported is there at once
    waiting, running = list(slices), dict[Connection, _Worker]()
    try:
        while waiting or running:
            while waiting and len(running) < cores:
                worker = _start(context, *waiting.pop(0))
                running[worker.pipe] = worker
            for pipe in wait(list(running), timeout=1.0):
                assert isinstance(pipe, Connection)
                worker = running.pop(pipe)
                yield worker.target, _result(worker)
            for worker in [each for each in running.values() if _is_silent(each)]:
                del running[worker.pipe]
                worker.process.kill()
                yield worker.target, _ended(worker, "Hang", f"no answer for {SILENT_SECONDS_MAX:g} s")
    finally:
        for worker in running.values():
            worker.process.kill()
            worker.process.join()


def _start(context: Any, target: Target, seed: str, seconds: float) -> _Worker:
    shared = mmap.mmap(-1, _HEAD_BYTES + INPUT_BYTES_MAX)
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(target, seed, seconds, shared, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, mine, shared, target)


def _work(target: Target, seed: str, seconds: float, shared: mmap.mmap, pipe: Connection) -> None:
    """In the process of its own."""
    limits.begin()
    tried = 0

    def note(_: Target, content: bytes) -> None:
        nonlocal tried
        tried += 1
        shared[:_HEAD_BYTES] = tried.to_bytes(8, "big") + len(content).to_bytes(8, "big")
        shared[_HEAD_BYTES : _HEAD_BYTES + len(content)] = content

    try:
        found: Slice | str = search(target, seed, seconds, guarded=limits.guarded(note))
    except Exception:  # noqa: BLE001 - a mistake of the search itself, told by the process that shows it
        found = traceback.format_exc()
    pipe.send(found)
    pipe.close()
    os._exit(0)  # what others started in this process before it was forked is not ended here


def _result(worker: _Worker) -> Slice:
    try:
        found = worker.pipe.recv()
    except EOFError:
        worker.process.join()
        return _ended(worker, "Crash", f"the process ended with {worker.process.exitcode}")
    worker.process.join()
    if not isinstance(found, Slice):
        raise RuntimeError(f"the search of {worker.target.name} failed:\n{found}")
    return found


def _is_silent(worker: _Worker) -> bool:
    head = worker.shared[:8]
    if head != worker.last:
        worker.last, worker.since = head, time.monotonic()
    return time.monotonic() - worker.since > SILENT_SECONDS_MAX


def _ended(worker: _Worker, kind: str, sentence: str) -> Slice:
    """The slice of a process that gave no result: its last input is the finding."""
    tried, size = (int.from_bytes(worker.shared[at : at + 8], "big") for at in (0, 8))
    content = worker.shared[_HEAD_BYTES : _HEAD_BYTES + size]
    found = Slice(tried=tried)
    found.note(content, Finding(kind, worker.target.name, f"{kind}: {sentence}"))
    return found
