"""docs/tutorial/your-own-data.md does what it says: its blocks run in order in one shell, and print what it shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.pages import ROOT, Block, blocks
from tests.support.processes import free_ports

PAGE = ROOT / "docs" / "tutorial" / "your-own-data.md"
SECONDS = 800
NEEDS = "needs"
EXIT_UNFIT = 1
_BEGUN, _ENDED = "==== block {}", "==== ended {}"


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.verify
def test_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    """From a CSV with odd values to tables in a folder, a store and a catalog; contract, repair and report included."""
    found = [block for block in blocks(PAGE, PAGE.read_text()) if block.kind != NEEDS]
    printed = run(found, tmp_path)
    shown = 0
    for number, block in enumerate(found):
        if block.kind == "shown":
            shown += 1
            assert_shows(block, printed[number - 1][0])
        elif block.language == "sh":
            expected = EXIT_UNFIT if "ingest check" in block.text else 0
            assert printed[number][1] == expected, f"{block}: {printed[number]}"
    assert shown >= 9
    assert "<svg" in (tmp_path / "own-data" / "report.html").read_text()


def run(found: list[Block], folder: Path) -> dict[int, tuple[str, int]]:
    """What each block of shell printed, and its exit code. Blocks with a file's name are saved where they stand."""
    messaging, store = free_ports(2)
    parts: list[str] = []
    for number, block in enumerate(found):
        text = block.text.replace("127.0.0.1:11015", f"127.0.0.1:{messaging}")
        text = text.replace("127.0.0.1:7070", f"127.0.0.1:{store}").replace("~/own-data", str(folder / "own-data"))
        if block.file:
            parts.append(f"cat > {block.file} <<'END OF FILE'\n{text}END OF FILE\n")
        elif block.language == "sh":
            begun, ended = _BEGUN.format(number), _ENDED.format("$code")
            parts.append(f"echo '{begun}'\n{text}code=$?; echo; echo \"{ended}\"\n")
    script, log = folder / "page.sh", folder / "page.log"
    script.write_text("".join(parts))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FAIRLEAD_"))}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    with log.open("wb") as out:
        shell = subprocess.Popen(
            ["bash", str(script)], cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
        try:
            shell.wait(SECONDS)
        finally:
            try:
                os.killpg(shell.pid, signal.SIGKILL)  # what the page left running
            except ProcessLookupError:
                pass
            shell.wait()
    pattern = re.compile(r"^==== block (\d+)\n(.*?)^==== ended (\d+)$", re.MULTILINE | re.DOTALL)
    return {int(number): (text, int(code)) for number, text, code in pattern.findall(log.read_text())}


def assert_shows(block: Block, printed: str) -> None:
    """Each line is there, in this order; `…` stands for what differs from run to run."""
    at = 0
    for line in block.text.splitlines():
        pattern = "".join(".*" if part == "…" else re.escape(part) for part in re.split("(…)", line))
        found = re.compile(f"^{pattern}$", re.MULTILINE).search(printed, at)
        assert found, f"{block}: {line!r} is not in:\n{printed[at:][-5000:]}"
        at = found.end()
