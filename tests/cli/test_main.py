"""The root command: help that teaches, lazy rooms, one sentence for what is missing."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from fairlead_cli import main
from fairlead_wire import distribution


@pytest.fixture
def stub_app() -> Iterator[list[Path | None]]:
    """An edge room whose app only notes what it was given, and wants exit status 2."""
    seen: list[Path | None] = []
    app = ModuleType("fairlead_edge.app")

    def run(config: Path | None) -> int:
        seen.append(config)
        return 2

    app.run = run  # type: ignore[attr-defined]
    before = sys.modules.get("fairlead_edge.app")
    sys.modules["fairlead_edge.app"] = app
    yield seen
    if before is None:
        del sys.modules["fairlead_edge.app"]
    else:
        sys.modules["fairlead_edge.app"] = before


def test_help_names_every_room_and_a_first_step() -> None:
    """Someone who types the name alone or --help learns what to type next."""
    shown = CliRunner().invoke(main.build(), ["--help"])
    assert shown.exit_code == 0
    for word in ("hub", "edge", "messaging", "ingest", "routes check", "FAIRLEAD_<PROGRAM>_<KEY>"):
        assert word in shown.output


@pytest.mark.process
def test_help_imports_no_room() -> None:
    """--help stays fast because no room, and nothing heavy, is imported for it."""
    code = (
        "import sys; from fairlead_cli import main; main.build();"
        "rooms = ('aiohttp', 'pyspark', 'kubernetes', 'kopf', 'websockets');"
        "heavy = [m for m in sys.modules if m.split('.')[0] in rooms"
        " or m.endswith('.app')]; print(heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_run_hands_over_the_file_and_its_exit_code(stub_app: list[Path | None], tmp_path: Path) -> None:
    config = tmp_path / "edge.toml"
    config.write_text("")
    done = CliRunner().invoke(main.build(), ["edge", "run", "--config", str(config)])
    assert (done.exit_code, stub_app) == (2, [config])


def test_run_without_a_file(stub_app: list[Path | None]) -> None:
    assert CliRunner().invoke(main.build(), ["edge", "run"]).exit_code == 2
    assert stub_app == [None]


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(main.build(), ["hub", "run", "--config", str(tmp_path / "no.toml")])
    assert done.exit_code == 2
    assert "no.toml" in done.output


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which package is missing and what to install, without a stack trace."""

    def no_package(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named 'kopf' ({name})", name="kopf")

    main.build()
    monkeypatch.setattr(importlib, "import_module", no_package)
    done = CliRunner().invoke(main.root, ["hub", "run"])
    assert done.exit_code == 2
    assert done.output == (
        "fairlead hub: the package kopf is not installed; install it with: pip install 'fairlead-kubernetes[hub]'\n"
    )


def test_a_fault_of_ours_is_not_blamed_on_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of Fairlead that is missing is a bug and looks like one."""

    def no_module(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    main.build()
    monkeypatch.setattr(importlib, "import_module", no_module)
    done = CliRunner().invoke(main.root, ["hub", "run"])
    assert isinstance(done.exception, ModuleNotFoundError)


def test_kubectl_plugin_calls_itself_by_its_two_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kubectl fairlead --help` must not teach another name than the one typed."""
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-fairlead"])
    assert main._program_name() == "kubectl fairlead"


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "extra"),
    [
        (["status", "--kubeconfig", "KUBECONFIG"], "hub"),
        (["explain", "configmap/x", "--node", "n", "--kubeconfig", "KUBECONFIG"], "hub"),
        (["topics", "list"], "messaging"),
        (["ingest", "status"], "ingest"),
        (["bench", "nodes"], "edge"),
        (["routes", "check", "MANIFEST"], "edge"),
        *[([room, "run"], room) for room in main.ROOMS],
    ],
)
def test_every_command_without_its_extra_names_it(line: list[str], extra: str, tmp_path: Path) -> None:
    """In an interpreter that has nothing but what every room needs: exit 2 and what to install."""
    for name, text in (("KUBECONFIG", "{}"), ("MANIFEST", "a: 1")):
        (tmp_path / name).write_text(text)
    blocker = tmp_path / "without.py"
    blocker.write_text(
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in "
        "('kopf', 'kubernetes', 'aiohttp', 'websockets', 'apsw', 'uvloop', 'yaml', 'rocksdict', 'pyarrow', 'pyspark',"
        " 'deltalake', 'pandas', 'prometheus_client', 'fastavro'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "from fairlead_cli.main import main\n"
        "main()\n"
    )
    settings = {
        "FAIRLEAD_INGEST_MESSAGING_URL": "http://127.0.0.1:9", "FAIRLEAD_INGEST_SECURITY": "insecure",
        "FAIRLEAD_INGEST_TOPICS": '["a/b"]', "FAIRLEAD_INGEST_TABLE": "t", "FAIRLEAD_INGEST_CHECKPOINT": "c",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(blocker), *line], cwd=tmp_path, capture_output=True, text=True, env=settings, timeout=120
    )
    if line[0] == "topics" and done.returncode == 1:
        return  # its client needs nothing that every room has not
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert distribution.install(extra) in done.stderr or "pip install pyyaml" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("line", [["--help"], ["completion", "bash"], ["backoff", "--help"]])
def test_a_full_disk_behind_the_output_is_a_sentence(line: list[str], unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fairlead_cli.main", *line],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, done.stderr) == (1, "Error: the output cannot be written: No space left on device\n")
