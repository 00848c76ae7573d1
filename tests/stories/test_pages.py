"""README and docs do what they say: every code block is run, tried on the real API server, or read by its reader."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from e2e.demo.screen import Screen
from e2e.demo.stack import Stack
from e2e.demo.story import Story
from tests.support.pages import ROOT, Block, Unannotated, blocks, pages

from fairlead_edge.outbox import publishing
from fairlead_edge.settings import EdgeSettings as EdgeSettings
from fairlead_hub.settings import HubSettings as HubSettings
from fairlead_ingest.rows.contract import MODES
from fairlead_ingest.settings import IngestSettings as IngestSettings
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_wire.io import settings

pytestmark = pytest.mark.process

FAIRLEAD = Path(sys.executable).parent / "fairlead"
MODELS: dict[str, Any] = {
    "hub": HubSettings,
    "edge": EdgeSettings,
    "messaging": MessagingSettings,
    "ingest": IngestSettings,
}
SHELL_SECONDS = 540
FOLLOW_SECONDS = 4
"""What never ends by itself is given so long."""
BLOCKS = [block for page in pages() for block in blocks(page, page.read_text())]


def of(*kinds: str) -> Any:
    found = [block for block in BLOCKS if block.kind in kinds]
    return pytest.mark.parametrize("block", found, ids=str)


# ── what needs nothing ──


def test_a_block_without_a_word_about_it_is_refused() -> None:
    """So that no example is forgotten."""
    page = ROOT / "README.md"
    with pytest.raises(Unannotated, match=r"README\.md:2"):
        list(blocks(page, "text\n```sh\nls\n```\n"))
    with pytest.raises(Unannotated, match="not closed"):
        list(blocks(page, "<!-- shown -->\n```sh\nls\n"))
    [block] = blocks(page, '<!-- json publish expect={"a": 1} -->\n```json\nx\n```\n')
    assert (block.kind, block.what, block.expect, block.text) == ("json", "publish", '{"a": 1}', "x\n")


@of("by", "needs", "shown")
def test_what_is_not_run_here_says_why(block: Block) -> None:
    """Another test that is there, or what it needs."""
    assert block.kind == "shown" or block.what
    assert block.kind != "by" or (ROOT / block.what).is_file()


@of("settings")
def test_settings_are_read(block: Block, tmp_path: Path) -> None:
    """By the program they are for."""
    file = tmp_path / "settings.toml"
    file.write_text(block.text)
    settings.load(block.what, MODELS[block.what], file, {"HOME": str(tmp_path)})


@of("programs")
def test_programs_start_with_settings_that_are_there(block: Block) -> None:
    """Every named file is one of the project's and can be read."""
    commands = re.findall(r"^fairlead (\w+) run --config (\S+)", block.text, re.MULTILINE)
    assert commands
    for room, file in commands:
        settings.load(room, MODELS[room], ROOT / file, {"HOME": "/home/me"})


@of("json")
def test_json_is_read(block: Block) -> None:
    """By the decoder that will read it."""
    match block.what:
        case "publish":
            for line in block.text.splitlines():
                read = publishing.parse(json.dumps({"messages": [json.loads(line)]}).encode())
                assert isinstance(read[0], publishing.Submission), read
        case "request":
            assert all(isinstance(each, publishing.Submission) for each in publishing.parse(block.text.encode()))
        case "schema":
            contract = json.loads(block.text)  # its types are for Spark to read, in tests/ingest
            assert contract["mode"] in MODES and all(isinstance(each, str) for each in contract["columns"].values())
        case "event":
            event = json.loads(block.text)
            assert {"specversion", "id", "source", "type", "time"} <= event.keys()
        case other:
            pytest.fail(f"{block}: no decoder for {other}")


@of("console")
def test_a_console_shows_what_is_printed(block: Block, tmp_path: Path) -> None:
    """To the letter."""
    commands = [part.split("\n", 1) for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE) if part.strip()]
    for command, printed in commands:
        done = shell(command, tmp_path, {"PATH": f"{FAIRLEAD.parent}:{os.environ['PATH']}"})
        assert done == printed


@of("table")
def test_a_table_is_read_as_the_page_says(block: Block, tmp_path: Path) -> None:
    """With no more than Delta's own library."""
    row = {"node": "edge-1", "enqueued_at": "2026-11-20T12:00:00Z", "body": "{}", "_topic": "default/telemetry"}
    write_deltalake(str(tmp_path / "telemetry"), pa.Table.from_pylist([row]), partition_by=["_topic"])
    done = subprocess.run([sys.executable, "-c", block.text], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == "1 rows of version 0\n", done.stderr


@of("manifest")
def test_a_manifest_is_good(block: Block, tmp_path: Path) -> None:
    """As `fairlead routes check` says."""
    (tmp_path / "routes.yaml").write_text(block.text)
    done = subprocess.run([FAIRLEAD, "routes", "check", "routes.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# ── what needs the local stack ──


class Desk:
    """A shell of a reader of the pages, one after the other, beside what `make up` leaves running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "desk"
        self.folder.mkdir()
        for name in ("examples", "crds", "docs"):
            (self.folder / name).symlink_to(ROOT / name)
        self.stack = Stack(folder / "stack", None, outlive=False, screen=Screen())
        self.environment = folder / "none"

    def up(self) -> None:
        story = Story(self.stack, Screen())
        story.raise_house()
        story.go_down()
        self.environment = self.stack.write_environment()

    def run(self, text: str) -> str:
        """What it prints."""
        return shell(f"source {self.environment}\n{self.here(text)}", self.folder, {"PATH": "/usr/bin:/bin"})

    def here(self, text: str) -> str:
        """The same, with this stack's addresses, and an end to what would follow for ever."""
        edge = self.stack.edges["edge-1"]
        text = (
            text.replace("make up ", ": ").replace("make up\n", ":\n").replace(".run/demo/env", str(self.environment))
        )
        text = text.replace("http://127.0.0.1:10550", f"http://127.0.0.1:{edge.port}")
        text = text.replace("/var/lib/fairlead-edge/token", str(edge.token))
        return re.sub(
            r"^(fairlead topics tail -f .*)$",
            rf"timeout -s INT {FOLLOW_SECONDS} \1 || [ $? = 124 ]",
            re.sub(r"\s+#.*$", "", text, flags=re.MULTILINE),
            flags=re.MULTILINE,
        )


def shell(text: str, folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env={"HOME": str(folder), **environ},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SHELL_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    desk = Desk(tmp_path_factory.mktemp("pages"))
    try:
        desk.up()
        yield desk
    finally:
        desk.stack.stop()


def do_apply(block: Block, desk: Desk) -> None:
    """The API server takes it, word for word; under its name it is there for the blocks that follow."""
    desk.stack.kubernetes.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=block.text)
    keep(block, desk)


def keep(block: Block, desk: Desk) -> None:
    if block.file.startswith("examples/"):
        assert (ROOT / block.file).read_text() == block.text, f"{block} is not {block.file}"
    elif block.file:
        (desk.folder / block.file).write_text(block.text)


def do_live(block: Block, desk: Desk) -> None:
    """It runs as it stands, and prints what the page says."""
    if "shop/orders" in block.text:  # made by the page's own program
        desk.run("fairlead topics create shop/orders")
    assert block.expect in desk.run(block.text)


def do_python(block: Block, desk: Desk) -> None:
    """One program of the page's blocks up to here; a loop ends with the first message."""
    program = "".join(each.text for each in BLOCKS if each.page == block.page and each.kind == "python")
    if "take(" in program:
        body = json.dumps({"messages": [{"source": "/messages/modules/camera/outputs/o", "body": 1}]}).encode()
        edge = desk.stack.edges["edge-1"]
        asked = urllib.request.Request(f"http://127.0.0.1:{edge.port}/v1/messages", body, edge.headers())
        with urllib.request.urlopen(asked) as answer:
            assert b"edge-1/filter/raw" in answer.read()
    text = f"def handle(body):\n    raise SystemExit(0)\n\n{desk.here(program)}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=SHELL_SECONDS)
    assert done.returncode == 0, done.stderr


DO: dict[str, Callable[[Block, Desk], None]] = {
    "apply": do_apply,
    "live": do_live,
    "python": do_python,
    "json": keep,
}


@pytest.mark.verify
@pytest.mark.kube
@pytest.mark.timeout(600)
@of("apply", "live", "python", "json")
def test_the_pages_work_as_written(block: Block, desk: Desk) -> None:
    """In the order in which they are read."""
    DO[block.kind](block, desk)


@pytest.mark.verify
@pytest.mark.kube
@pytest.mark.timeout(600)
def test_the_readmes_message_is_in_its_topic(desk: Desk) -> None:
    """After the pages above were played: its routes live beside the demo's, and both objects are accepted whole."""
    found = json.loads(desk.run("kubectl get eroutes -o json"))
    for each in found["items"]:
        assert not each["status"]["refusedNodes"], (each["metadata"]["name"], each["status"]["failingNodes"])
    assert "temperature" in desk.run("fairlead topics tail default/telemetry --limit 100")
