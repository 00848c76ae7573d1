"""`kubectl_complete-fairlead`: suggests words for kubectl's command line.

kubectl ─words, the last one unfinished─▶ click's own completion ─▶ lines VALUE<TAB>HELP, then :DIRECTIVE

The directives are cobra's: 4 means no file names, 0 that the shell may complete file names, 2 that no space follows.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from click.shell_completion import CompletionItem, ShellComplete

FILES, NO_BLANK, NO_FILES = 0, 2, 4


def answer(words: Sequence[str]) -> list[str]:
    """The suggestions for the words after `kubectl fairlead`; an empty last word means that none was begun."""
    from fairlead_cli.main import build

    *before, incomplete = words or [""]
    items = ShellComplete(build(), {}, "kubectl fairlead", "").get_completions(list(before), incomplete)
    directive = FILES if any(item.type in ("file", "dir") for item in items) else NO_FILES
    names = [item for item in items if item.type == "plain"]
    if names and all(str(item.value).endswith(("/", "=")) for item in names):
        directive |= NO_BLANK
    return [*(_line(item) for item in names), f":{directive}"]


def _line(item: CompletionItem) -> str:
    help = " ".join((item.help or "").split())
    return f"{item.value}\t{help}" if help else str(item.value)


def main() -> None:
    """Entry point; an error must not disturb the line that is being typed."""
    lines = [f":{NO_FILES}"]
    with contextlib.suppress(Exception, SystemExit):
        lines = answer(sys.argv[1:])
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
    # A thread that still waits for a name server would keep the shell waiting with it.
    os._exit(0)


if __name__ == "__main__":
    main()
