"""What systemd hears of the agent: by a socket of the test's own, and from the whole agent as a program."""

from __future__ import annotations

import asyncio
import contextlib
import select
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.edges.edge_link import until
from tests.support.processes import free_ports, wait_until

from fairlead_edge import app
from fairlead_edge.errors import StoreDamaged
from fairlead_edge.io import service_manager
from fairlead_edge.io.service_manager import ServiceManager
from fairlead_edge.settings import EdgeSettings

UNIT = Path(__file__).parents[3] / "charts/fairlead-edge/systemd/fairlead-edge.service"
EXPOSURE_MAX = 3.0
SECONDS = 60.0


class Manager:
    """The socket on which a service manager listens."""

    def __init__(self, folder: str) -> None:
        self.path = f"{folder}/notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        self.heard: list[str] = []

    def listen(self) -> list[str]:
        """All lines until now."""
        while True:
            try:
                self.heard += self.socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return self.heard

    @contextlib.contextmanager
    def listening(self) -> Iterator[list[str]]:
        """All lines, read as they come: the kernel keeps ten datagrams and no more."""
        ended = threading.Event()

        def follow() -> None:
            while not ended.is_set():
                select.select([self.socket], [], [], 0.05)
                self.listen()

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield self.heard
        finally:
            ended.set()
            thread.join()


@pytest.fixture
def manager() -> Iterator[Manager]:
    # A socket's path has 108 characters at most; pytest's own folders may be longer.
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        found = Manager(folder)
        yield found
        found.socket.close()


def test_each_state_is_one_datagram(manager: Manager) -> None:
    """The longer watchdog of a repair ends with the next READY=1."""
    ours = ServiceManager(manager.path, watchdog_seconds=60)
    ours.repairing()
    ours.ready()
    ours.stopping()
    assert manager.listen() == [
        "STATUS=a store is damaged: salvaging what can be read", "WATCHDOG_USEC=3600000000",
        "READY=1", "STATUS=serving", "WATCHDOG_USEC=60000000",
        "STOPPING=1", "STATUS=stopping",
    ]  # fmt: skip


def test_a_state_waits_for_room_in_a_full_queue(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager that is busy at boot hears READY=1 all the same; it is said once only."""
    monkeypatch.setattr(service_manager, "STATE_SECONDS_MAX", SECONDS)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, contextlib.suppress(BlockingIOError):
        other.setblocking(False)
        while True:
            other.sendto(b"WATCHDOG=1", manager.path)
    saying = threading.Thread(target=ServiceManager(manager.path).ready)
    saying.start()
    saying.join(0.1)  # what does not wait is done by then, and its word is lost
    wait_until("READY=1", lambda: "READY=1" in manager.listen(), seconds=SECONDS)
    saying.join()


def test_socket_without_a_file() -> None:
    """An address with "@" is one in the abstract namespace, which is where containers' systemd listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("")  # the kernel chooses a name
        name: bytes = listener.getsockname()
        ServiceManager("@" + name[1:].decode()).ready()
        assert listener.recv(4096) == b"READY=1\nSTATUS=serving"


@pytest.mark.parametrize(
    ("environ", "pings"),
    [
        ({"WATCHDOG_USEC": "30000"}, True),
        ({"WATCHDOG_USEC": "30000", "WATCHDOG_PID": "7"}, True),
        ({"WATCHDOG_USEC": "30000", "WATCHDOG_PID": "8"}, False),
        ({"WATCHDOG_USEC": "soon"}, False),
        ({}, False),
    ],
)
async def test_pings_only_where_a_watchdog_looks(manager: Manager, environ: dict[str, str], pings: bool) -> None:
    ours = ServiceManager.from_environment({"NOTIFY_SOCKET": manager.path, **environ}, pid=7)
    task = asyncio.create_task(ours.keep_alive())
    await until(lambda: not pings or manager.listen().count("WATCHDOG=1") > 2)
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ("WATCHDOG=1" in manager.listen()) is pings


async def test_a_loop_that_is_blocked_does_not_ping(manager: Manager) -> None:
    """The pings are the loop's own progress: while one call holds it, none goes out."""
    task = asyncio.create_task(ServiceManager(manager.path, watchdog_seconds=0.003).keep_alive())
    await until(lambda: len(manager.listen()) > 1)
    before = len(manager.listen())
    # A hundred intervals' worth of work in one step of the loop, however fast the machine is.
    loop = asyncio.get_running_loop()
    end = loop.time() + 0.1
    while loop.time() < end:
        pass
    assert len(manager.listen()) == before
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_silence_of_the_manager_stops_nothing(tmp_path: Path) -> None:
    ServiceManager().ready()
    ServiceManager(str(tmp_path / "gone")).ready()


async def test_damage_met_in_use_is_no_stop(tmp_path: Path, manager: Manager) -> None:
    """The agent goes on, and systemd never takes STOPPING=1 back: it would kill the repair after TimeoutStopSec."""
    [port] = free_ports(1)
    settings = EdgeSettings(
        node="edge-1", hub_url="ws://127.0.0.1:1", data_dir=str(tmp_path / "data"), security="insecure",
        http_listen=f"127.0.0.1:{port}",
    )  # fmt: skip
    async with app._opened(settings, thorough=False) as agent:
        agent._outbox.writer.damaged("a page is not what was written")
        with pytest.raises(StoreDamaged):
            await agent.run(asyncio.Event(), ServiceManager(manager.path))
    assert manager.listen() == ["READY=1", "STATUS=serving"]


@pytest.mark.process
def test_the_agent_says_when_it_is_ready_alive_and_stopping(tmp_path: Path, manager: Manager) -> None:
    """READY=1 after its API answers, pings, STOPPING=1; a hub is not needed for any of it."""
    agent = EdgeAgent(tmp_path, "ws://127.0.0.1:1")
    agent.extra = {"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "300000"}
    with manager.listening() as heard:
        running = agent.launch()
        try:
            wait_until("READY=1", lambda: "READY=1" in heard, seconds=SECONDS, describe=running.tail)
            assert agent.get("/healthz")[0] == 200
            seen = len(heard)
            wait_until("pings", lambda: heard[seen:].count("WATCHDOG=1") > 2, seconds=SECONDS)
            assert agent.stop() == 0
            wait_until("STOPPING=1", lambda: "STOPPING=1" in heard, seconds=SECONDS)
        finally:
            if running.alive:
                agent.kill()


@pytest.mark.process
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_exposure_of_the_unit() -> None:
    """What systemd itself makes of the unit's sandbox, from 0 (all) to 10 (none)."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}", str(UNIT)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot read a unit file offline; 250 or newer can")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
