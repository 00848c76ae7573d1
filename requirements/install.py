"""`make dev`: pip, with a word about how far it is; it says nothing for minutes otherwise.

    python requirements/install.py PIP-ARGUMENTS…

On a terminal one line renews itself, elsewhere a line comes each ten seconds; pip's own words are shown when it fails.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

LINE_SECONDS = 10.0
POLL_SECONDS = 0.5
TAIL_CHARS = 4000


def installed() -> int:
    """Packages that are whole: pip writes their metadata last."""
    return sum(1 for _ in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))


def pinned(lock: Path) -> int:
    """How many packages a lock pins."""
    return sum("==" in line and not line.startswith((" ", "#")) for line in lock.read_text().splitlines())


def interrupted(number: int, frame: object) -> None:
    """SIGTERM ends like Ctrl-C: pip is ended, too."""
    raise KeyboardInterrupt


def main() -> int:
    """Run as a program; see the module's docstring."""
    signal.signal(signal.SIGTERM, interrupted)
    total = pinned(Path(sys.argv[sys.argv.index("-r") + 1]))
    renews = sys.stderr.isatty()
    started = told = time.monotonic()
    before = installed()
    with tempfile.TemporaryFile() as words:
        pip = subprocess.Popen([sys.executable, "-m", "pip", *sys.argv[1:]], stdout=words, stderr=subprocess.STDOUT)
        try:
            while pip.poll() is None:
                time.sleep(POLL_SECONDS)
                now = time.monotonic()
                if now - told >= (POLL_SECONDS if renews else LINE_SECONDS):
                    told = now
                    words.seek(0)
                    fetched = words.read().count(b"\nCollecting ")
                    done = installed() - before
                    step = f"installed {done} of {total}" if done > 0 else f"fetched {fetched} of {total}"
                    text = f"fairlead: {step} packages, {now - started:.0f} s"
                    sys.stderr.write(f"\r\x1b[K{text}" if renews else f"{text}\n")
                    sys.stderr.flush()
        except KeyboardInterrupt:
            pip.terminate()
            pip.wait()
            print("\nfairlead: interrupted; run make dev again", file=sys.stderr)
            return 130
        if renews:
            print(file=sys.stderr)
        if pip.returncode:
            words.seek(0)
            print(words.read().decode(errors="replace")[-TAIL_CHARS:], file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main())
