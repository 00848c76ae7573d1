"""A killed test run leaves no cluster behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import wait_until


@pytest.mark.kube
def test_nothing_outlives_a_killed_test_run(tmp_path: Path) -> None:
    """kill -9 of the process that started a cluster ends etcd, API server and controllers too."""
    program = (
        "import sys, pathlib, time; from tests.support.kube.cluster import Cluster\n"
        "cluster = Cluster(pathlib.Path(sys.argv[1])).start()\n"
        "print(*(running.pid for running in cluster.running.values()), flush=True)\n"
        "time.sleep(600)\n"
    )
    root = Path(__file__).resolve().parents[2]
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 3
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_until("all three are gone", lambda: not any(is_running(pid) for pid in pids), seconds=100)


def is_running(pid: int) -> bool:
    """True while `pid` runs; a zombie that was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
