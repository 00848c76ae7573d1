"""What `make docs` says at its end: how much was checked, and how each block of code is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.support import pages as annotated

ELSEWHERE = ("https://", "http://", "mailto:")
DONE_BY = {
    "live": "run against the local stack",
    "python": "run against the local stack",
    "apply": "tried on the real API server",
    "manifest": "judged by routes check",
    "settings": "read by the program they are for",
    "programs": "their settings are read",
    "json": "read by the decoder they are for",
    "table": "run beside a Delta table",
    "console": "run, output compared to the letter",
    "by": "done by another test",
    "needs": "not run: needs what is not here",
    "shown": "output or a drawing",
}
GENERATED = "cli-commands.md"
"""Its blocks are the help of commands, which other tests run."""
NOT_RUN = ("needs", "shown")


def text(pages: Sequence[Path], links: Sequence[str]) -> str:
    """One line for each figure."""
    inside = [link for link in links if not link.startswith(ELSEWHERE)]
    written = [page for page in annotated.pages() if page.name != GENERATED]
    kinds = Counter(block.kind for page in written for block in annotated.blocks(page, page.read_text()))
    run = sum(count for kind, count in kinds.items() if kind not in NOT_RUN)
    lines = [
        f"pages                {len(pages)}",
        f"links checked        {len(inside)}",
        f"anchors checked      {sum('#' in link for link in inside)}",
        f"links elsewhere      {len(links) - len(inside)} (not asked: nothing here needs a network)",
        f"code blocks          {kinds.total()}, {run} of them executed by tests/stories/test_pages.py and others:",
        *(f"  {kind:<10} {kinds[kind]:>4}  {how}" for kind, how in DONE_BY.items() if kinds[kind]),
    ]
    return "\n".join(lines)
