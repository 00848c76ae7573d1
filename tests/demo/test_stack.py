"""The demo's machinery: configuration text, records of what runs, links that can be cut, missing tools."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.demo.record import Record, started_at
from e2e.demo.screen import Screen
from e2e.demo.stack import ROOT, Stack, toml
from tests.support.kube.kubernetes import Kubernetes
from tests.support.processes import Running, free_ports, start, wait_until

pytestmark = pytest.mark.process


def test_settings_become_toml() -> None:
    """What a user would write by hand."""
    text = toml({"trigger": 1, "topics": ("a/b", "c/d"), "table": Path("/t")})
    assert tomllib.loads(text) == {"trigger": 1, "topics": ["a/b", "c/d"], "table": "/t"}


def test_the_stack_may_lie_in_a_folder_with_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that reads `env` has each value whole."""
    folder, programs = tmp_path / "my demo's", tmp_path / "my programs"
    folder.mkdir()
    monkeypatch.setattr(Kubernetes, "assets", programs)
    stack = Stack(folder, folder / "kubeconfig", outlive=False, screen=Screen())
    stack.start_cluster()  # of the user's, so nothing starts; from here on the addresses are known, and written
    script = f'. {shlex.quote(str(folder / "env"))}; printf "%s\\n" "$PATH" "$KUBECONFIG" "$EDGE_1_DATA"'
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=120)
    path, kubeconfig, data = done.stdout.splitlines()
    assert path.split(":")[1] == str(programs)
    assert (kubeconfig, data) == (str(folder / "kubeconfig"), str(folder / "edge-1"))
    said = dict(stack.addresses())
    assert shlex.split(said["kubectl"])[2] == f"KUBECONFIG={folder / 'kubeconfig'}"
    assert shlex.split(said["status"])[3] == str(folder / "hub.toml")


def test_the_demo_without_java_fails_in_one_line(tmp_path: Path) -> None:
    """Exit 1, a last line that says why, no stack trace, nothing started."""
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "e2e.demo"], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("demo: failed: needs Java")
    assert "Traceback" not in done.stderr


def test_a_folder_with_something_else_is_never_emptied(tmp_path: Path) -> None:
    """A misspelt --folder must not cost anybody their files."""
    (tmp_path / "thesis.txt").write_text("years of work")
    command = [sys.executable, "-m", "e2e.demo", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "is not the state of a demo" in done.stdout
    assert (tmp_path / "thesis.txt").exists()


def test_a_record_ends_exactly_what_it_names(tmp_path: Path) -> None:
    """Another process outlives it, and so does one that was given the same id later."""
    ours, other = (start(name, ["sleep", "600"], tmp_path / f"{name}.log") for name in ("ours", "other"))
    try:
        record = Record(tmp_path / "running.json")
        record.write({"ours": ours.pid})
        assert record.alive() == {"ours": ours.pid}
        reused = Record(tmp_path / "reused.json")
        reused.path.write_text(f'{{"other": {{"pid": {other.pid}, "started": 1}}}}')
        assert reused.end() == []
        waited_for: list[list[str]] = []
        assert record.end(waited_for.append) == ["ours"]
        assert waited_for in ([], [["ours"]]), "it says at once what it waits for, unless that has ended already"
        assert started_at(ours.pid) is None
        assert other.alive
        assert not record.path.exists()
    finally:
        ours.kill()
        other.kill()


def test_no_record_means_nothing_runs(tmp_path: Path) -> None:
    """make down on a quiet machine."""
    assert Record(tmp_path / "none.json").end() == []


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says everything back."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    server.close()


def link(folder: Path, listen: int, target: int) -> Running:
    """A running link."""
    command = [sys.executable, "-m", "e2e.demo.proxy", str(listen), str(target)]
    running = start("link", command, folder / f"{os.urandom(4).hex()}.log", folder=ROOT)
    wait_until("it carries", lambda: "->" in running.log.read_text(), seconds=120, describe=running.tail)
    return running


def test_a_link_carries_breaks_refuses_and_returns(tmp_path: Path, echo: int) -> None:
    """Cut means: what was open ends, what is tried is refused; afterwards the same port carries again."""
    [port] = free_ports(1)
    first = link(tmp_path, port, echo)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as near:
        near.sendall(b"hello")
        assert near.recv(16) == b"hello"
        first.kill()
        assert near.recv(16) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=60)
    second = link(tmp_path, port, echo)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as near:
        near.sendall(b"again")
        assert near.recv(16) == b"again"
    second.kill()


def cable(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What a person types after `source .run/demo/env`."""
    command = [sys.executable, "-m", "e2e.demo.cable", str(folder), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_a_person_cuts_and_mends_a_link(tmp_path: Path, echo: int) -> None:
    """The command ends when it is so, and says so; a node without a link is refused with the ones there are."""
    [port] = free_ports(1)
    running = link(tmp_path, port, echo)
    Record.of(tmp_path).write({"link-edge-2": running.pid})
    (tmp_path / "edge-2.toml").write_text(toml({"hub_url": f"ws://127.0.0.1:{port}"}))
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as near:
            near.sendall(b"hello")
            assert near.recv(16) == b"hello"
            assert cable(tmp_path, "cut", "edge-2").stdout == "edge-2: the link is cut\n"
            with contextlib.suppress(ConnectionResetError):
                assert near.recv(16) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=60)
        assert cable(tmp_path, "mend", "edge-2").stdout == "edge-2: the link is restored\n"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as near:
            near.sendall(b"again")
            assert near.recv(16) == b"again"
        refused = cable(tmp_path, "cut", "edge-9")
        assert (refused.returncode, refused.stderr) == (1, "cable: no link of edge-9 runs; name one of edge-2\n")
    finally:
        running.kill()


def test_a_link_without_a_hub_closes(tmp_path: Path) -> None:
    """The edge sees an end, not silence."""
    listen, closed_port = free_ports(2)
    running = link(tmp_path, listen, closed_port)
    with socket.create_connection(("127.0.0.1", listen), timeout=60) as near:
        assert near.recv(16) == b""
    running.kill()
