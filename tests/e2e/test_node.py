"""The node harness without a node: names, files, refusals, and the cleaning up behind a killed harness."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from e2e.node import __main__ as program
from e2e.node import cgroups, link, machine, node, processes, programs, traces
from e2e.node.plan import SLOTS, Plan
from tests.support.processes import wait_until

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
TOKENS = {user: f"token-{user}" for user in programs.USERS}

HARNESS = """
import sys, time
from pathlib import Path
from e2e.node import cgroups, janitor, node
plan = node.claim(Path(sys.argv[1]))
cgroups.make(plan.cgroup)
hired = janitor.start(plan.folder)
print(plan.folder, flush=True)
time.sleep(600)
"""

WATCH = """
import subprocess, sys
from e2e.node import init
PIPE = subprocess.PIPE
def start(name):
    print("again", name, flush=True)
    etcd.stdin.close()
    return again
again, etcd = subprocess.Popen(["cat"], stdin=PIPE, stdout=PIPE), subprocess.Popen(["cat"], stdin=PIPE, stdout=PIPE)
code = init.watch({"kubelet": subprocess.Popen(["true"]), "etcd": etcd}, start)
again.kill()
sys.exit(10 + code)
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A plan whose folder exists."""
    return Plan(slot=3, folder=tmp_path)


def test_two_plans_share_nothing(tmp_path: Path) -> None:
    """Names and networks of any two slots differ."""
    one, two = (Plan(slot=slot, folder=tmp_path / f"{slot}-x") for slot in (0, 1))
    for key in ("name", "cgroup", "link", "peer", "host_address", "address", "pods", "services", "api"):
        assert getattr(one, key) != getattr(two, key), key


@pytest.mark.parametrize("slot", [-1, SLOTS])
def test_slot_out_of_range_is_refused(slot: int, tmp_path: Path) -> None:
    """There are only so many addresses."""
    with pytest.raises(ValueError, match="slot"):
        Plan(slot=slot, folder=tmp_path)


def test_folder_too_deep_for_a_socket_is_refused(tmp_path: Path) -> None:
    """A Unix socket's path is bounded; the refusal says what to set."""
    with pytest.raises(ValueError, match="FAIRLEAD_E2E_HOME"):
        Plan(slot=0, folder=tmp_path / ("x" * 120))


def test_plan_is_found_again(plan: Plan) -> None:
    """Another process reads what one wrote."""
    plan.save()
    assert Plan.read(plan.folder) == plan


def test_files_are_what_their_readers_read(plan: Plan) -> None:
    """TOML, JSON and CSV parse, and every path in a command exists as a file of the plan."""
    files = programs.files(plan, TOKENS, plan.pki / "ca.crt")
    assert tomllib.loads(files["containerd.toml"])["grpc"]["address"] == str(plan.containerd_socket)
    for name in ("kubelet.yaml", "proxy.yaml", "cni/10-pods.conflist", "admin.kubeconfig"):
        assert json.loads(files[name])
    assert f"system:node:{plan.name}" in files["pki/tokens.csv"]
    commands = {**programs.first(plan, Path("/bin")), **programs.second(plan, Path("/bin"))}
    made = {"apiserver.crt", "apiserver.key", "ca.crt", "service-account.pub", "service-account.key"}
    for command in commands.values():
        for word in command:
            path = Path(word.partition("=")[2] or word)
            if path.is_relative_to(plan.folder) and path.suffix and "--token" not in word:
                assert path.name in made or str(path.relative_to(plan.folder)) in files, word


def test_what_lacks_is_named_with_its_remedy() -> None:
    """One sentence: what is missing, and the command that brings it."""
    lacks = machine.tools(path="/nowhere")
    text = machine.remedy(lacks)
    assert "containerd" in text
    assert "apt-get install containerd" in text
    assert "iproute2" in text


@pytest.mark.parametrize(("environ", "code"), [({}, 0), ({"FAIRLEAD_E2E": "required"}, 1)])
def test_unfit_machine_is_a_skip_or_a_failure(
    environ: dict[str, str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A skip says why; where the run is required it is a failure."""
    monkeypatch.delenv("FAIRLEAD_E2E", raising=False)
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(machine, "rights", lambda home: [machine.Lack(what="root")])
    assert program.main([]) == code
    assert capsys.readouterr().out.startswith(f"e2e: {'failed' if code else 'skipped'}: missing: root")


@pytest.mark.parametrize(
    ("path", "kind"), [("/tmp/x", "tmpfs"), ("/tmpfile", "overlay"), ("/data/fairlead", "ext4"), ("/", "overlay")]
)
def test_filesystem_of_a_path(path: str, kind: str) -> None:
    """The longest mount point holds it, by whole names; of two on one place, the upper."""
    mounts = "x / ext3 rw 0 0\noverlay / overlay rw 0 0\nt /tmp tmpfs rw 0 0\n/dev/sda /data ext4 rw 0 0\n"
    assert machine.filesystem(Path(path), mounts) == kind


def test_packages_are_installed_only_where_that_is_expected() -> None:
    """On a developer's machine nothing is installed unasked."""
    assert not machine.may_install({})
    assert machine.may_install({"CI": "true"})
    assert machine.may_install({"FAIRLEAD_E2E": "required"})


def test_unknown_node_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`down` of an unknown name ends with 2."""
    monkeypatch.setenv("FAIRLEAD_E2E_HOME", str(tmp_path))
    assert program.main(["down", "fairlead9"]) == 2
    assert "no such node: fairlead9" in capsys.readouterr().err


def test_cgroups_go_with_all_below_them(tmp_path: Path) -> None:
    """Nested groups are removed from the inside out; removing again is no error."""
    for controller in ("cpuset", "memory"):
        (tmp_path / controller).mkdir()
    for file in ("cpuset.cpus", "cpuset.mems"):
        (tmp_path / "cpuset" / file).write_text("0")
    cgroups.make("x", tmp_path)
    assert (tmp_path / "cpuset" / "x" / "cpuset.cpus").read_text() == "0"
    for file in ("cpuset.cpus", "cpuset.mems"):
        (tmp_path / "cpuset" / "x" / file).unlink()  # A real hierarchy does not count its own files.
    (tmp_path / "memory" / "x" / "kubepods" / "pod1").mkdir(parents=True)
    cgroups.remove("x", tmp_path)
    cgroups.remove("x", tmp_path)
    assert cgroups.roots("x", tmp_path) == []


def test_unified_hierarchy_is_opened_for_children(tmp_path: Path) -> None:
    """On cgroup v2 the controllers are enabled before the root is made."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids misc\n")
    cgroups.make("x", tmp_path)
    assert (tmp_path / "x").is_dir()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"  # A plain file keeps the last write.


def rightless() -> str:
    """Why links and cgroups cannot be made here, empty when they can."""
    lacks = machine.rights(Path("/")) or [lack for lack in machine.tools() if lack.what == "ip"]
    return machine.remedy(lacks) if lacks else ""


def test_killed_harness_leaves_nothing(tmp_path: Path) -> None:
    """kill -9 of the harness: the janitor removes link, cgroups and folder."""
    if reason := rightless():
        assert not machine.required(os.environ), reason
        pytest.skip(reason)
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(tmp_path)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert harness.stdout is not None
    plan = Plan.read(Path(harness.stdout.readline().decode().strip()))
    assert len(traces.left(plan)) >= 3
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    harness.stdout.close()
    wait_until("nothing of the node is left", lambda: not traces.left(plan), seconds=120)


def test_slot_is_claimed_once(tmp_path: Path) -> None:
    """Two harnesses never get the same slot, and removing the first does not touch the second."""
    if reason := rightless():
        assert not machine.required(os.environ), reason
        pytest.skip(reason)
    one = node.claim(tmp_path)
    two = node.claim(tmp_path)
    try:
        assert one.slot != two.slot
        node.remove(one.folder)
        assert traces.left(one) == []
        assert not link.claim(two)
    finally:
        node.remove(one.folder)
        node.remove(two.folder)
    assert traces.left(two) == []


def test_a_kubelet_that_ends_is_started_again_and_another_program_ends_the_node() -> None:
    """As a service manager does it; the story kills kubelets."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 11, done.stderr
    said = done.stdout.splitlines()
    assert said[:2] == ["kubelet ended with 0; it is started again", "again kubelet"]
    assert said[2].startswith("etcd ended with 0")


def test_only_the_program_with_this_path_and_folder_is_killed(tmp_path: Path) -> None:
    """A node beside runs the same programs."""
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    mine, others = (subprocess.Popen([*command, str(tmp_path / name)]) for name in ("mine", "others"))
    try:
        killed = wait_until(
            "it runs", lambda: processes.kill_program(Path(sys.executable), tmp_path / "mine"), seconds=60
        )
        assert killed == [mine.pid] and mine.wait(60) == -signal.SIGKILL
        assert others.poll() is None
        assert processes.kill_containers("no-such-pod-has-this-uid") == 0
    finally:
        for each in (mine, others):
            each.kill()
            each.wait()
