"""What a message costs the agent over MQTT beside HTTP: CPU time of the agent's process, in turns.

    .venv/bin/python -m benchmarks.upstream.mqtt_cost [SECONDS [ROUNDS]]

The link is cut, so that accepting alone is measured; everything acknowledged is counted in the store at the end.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.edges.edge_line import CountingHub, EdgeProgram
from tests.support.processes import free_ports

SECONDS = 4
ROUNDS = 3
ROUTES = {
    "schemaVersion": "1.1.0",
    "routes": {
        "all": {"route": "FROM /messages/modules/* INTO $upstream", "priority": 5},
        "some": {"route": "FROM /messages/modules/* WHERE $body.sequence = -1 INTO $upstream", "priority": 1},
    },
    "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
}
CASES = {
    "http, 64 a request, 4 connections": ("load", 4, 64, 1),
    "mqtt 3.1.1, 16 connections x 16": ("mqtt_load", 16, 16, 4),
    "mqtt 5, 16 connections x 16": ("mqtt_load", 16, 16, 5),
    "http, 1 a request, 64 connections": ("load", 64, 1, 1),
    "mqtt 3.1.1, 64 connections x 1": ("mqtt_load", 64, 1, 4),
}
COMPARED = {
    "windowed, to HTTP batches of 64": ("mqtt 3.1.1, 16 connections x 16", "http, 64 a request, 4 connections"),
    "one at a time, to HTTP single": ("mqtt 3.1.1, 64 connections x 1", "http, 1 a request, 64 connections"),
}


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the table."""
    given = [int(text) for text in sys.argv[1:]]
    seconds, rounds = given + [SECONDS, ROUNDS][len(given) :]
    port = free_ports(1)[0]
    settings = f'[mqtt]\nlisten = "127.0.0.1:{port}"'
    with (
        tempfile.TemporaryDirectory() as folder,
        CountingHub(routes=ROUTES) as hub,
        EdgeProgram(Path(folder), hub.port, settings=settings) as edge,
    ):
        edge.await_routes()
        hub.cut()
        costs: dict[str, list[float]] = {name: [] for name in CASES}
        rates: dict[str, list[float]] = {name: [] for name in CASES}
        acknowledged = 1  # the one that waited for routes
        for _ in range(rounds):
            for name, (program, connections, size, last) in CASES.items():
                at = edge.port if program == "load" else port
                command = [sys.executable, "-m", f"benchmarks.upstream.{program}"]
                command += [str(each) for each in (at, connections, size, seconds, last)]
                before = cpu_seconds(edge.pid)
                found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                costs[name].append((cpu_seconds(edge.pid) - before) / found["messages"] * 1e6)
                rates[name].append(found["messages"] / found["seconds"])
                acknowledged += found["messages"]
        stored = sum(queue["accepted"] for queue in edge.status()["queues"])
        print(f"{'':<36}{'CPU µs/message':>16}{'messages/s':>12}")
        for name in CASES:
            print(f"{name:<36}{statistics.median(costs[name]):>16.1f}{statistics.median(rates[name]):>12,.0f}")
        for name, (one, other) in COMPARED.items():
            print(f"{name}: {statistics.median(costs[one]) / statistics.median(costs[other]):.2f}")
        print(f"acknowledged {acknowledged:,}, stored {stored:,}, lost {max(0, acknowledged - stored)}")


if __name__ == "__main__":
    main()
