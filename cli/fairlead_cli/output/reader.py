"""Whether what is printed is still read."""

from __future__ import annotations

import select
import sys


def is_there() -> bool:
    """False when standard output is a pipe whose reader has gone, as in `… --watch | head`; nothing else shows it."""
    watching = select.poll()
    try:
        watching.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # no file, or none that can be watched
        return True
    return not any(events & (select.POLLERR | select.POLLNVAL) for _, events in watching.poll(0))
