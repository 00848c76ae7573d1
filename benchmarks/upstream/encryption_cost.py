"""What encryption at rest costs the agent: plain, secrets and all beside each other, in turns, in the same run.

    .venv/bin/python -m benchmarks.upstream.encryption_cost   # messages/s accepted and drained, p99, memory, ratios

Three real agents take the same load in turns while their links are cut, then drain; so whatever else the machine does
meets each of them.  Plain runs twice: so far two equal things are apart.
"""

from __future__ import annotations

import contextlib
import secrets
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.edges.edge_line import CountingHub, EdgeProgram
from tests.support.edges.silent_readers import rss_mib

from benchmarks.upstream.bench_upstream import BATCH, CONNECTIONS, TICKS, drain, load

ROUNDS = 3
SECONDS = 3
EXTENTS = ("plain", "plain again", "secrets", "all")


class Cost:
    """One agent, and what was measured of it so far."""

    def __init__(self, extent: str, edge: EdgeProgram, hub: CountingHub) -> None:
        self.extent = extent
        self.edge = edge
        self.hub = hub
        self.accepted: list[float] = []
        self.one_by_one: list[float] = []
        self.drained: list[float] = []
        self.p99: list[float] = []
        self.rss = rss_mib(edge.pid)
        self.cpu: list[float] = []
        """Microseconds of the agent a message, accepted in batches and drained."""
        self._stored = 0

    def measure(self) -> None:
        """One round."""
        self.hub.cut()
        alone = load(self.edge.port, 1, 1, 1)
        began = cpu_seconds(self.edge)
        found = load(self.edge.port, CONNECTIONS, BATCH, SECONDS)
        self.one_by_one.append(alone["messages"] / alone["seconds"])
        self.accepted.append(found["messages"] / found["seconds"])
        self.p99.append(found["p99"] * 1000)
        count = int(alone["messages"] + found["messages"])
        self._stored += count
        self.drained.append(count / drain(self.edge, self.hub, self._stored))
        self.cpu.append((cpu_seconds(self.edge) - began) / found["messages"] * 1e6)


def cpu_seconds(edge: EdgeProgram) -> float:
    """User and system time of the process so far."""
    fields = Path(f"/proc/{edge.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def agents() -> Iterator[list[Cost]]:
    """All four, with their routes and hubs."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        key = Path(folder) / "key"
        key.write_text(secrets.token_hex(32))
        key.chmod(0o600)
        found = []
        for extent in EXTENTS:
            store = "" if extent.startswith("plain") else f'encryption_key = "{key}"\nencrypt = "{extent}"\n'
            hub = stack.enter_context(CountingHub())
            edge = EdgeProgram(Path(folder) / extent.replace(" ", "-"), hub.port, store=store)
            stack.enter_context(edge)
            edge.await_routes()
            found.append(Cost(extent, edge, hub))
        yield found


def measured(rounds: int = ROUNDS) -> list[Cost]:
    """Each agent in turn, ``rounds`` times."""
    with agents() as found:
        for _ in range(rounds):
            for cost in found:
                cost.measure()
        return found


def main() -> None:
    """Print the table."""
    found = measured()
    plain = found[0]
    print(
        f"{'':<12}{'batches/s':>12}{'ratio':>7}{'p99 ms':>8}{'singles/s':>11}{'ratio':>7}{'drained/s':>11}"
        f"{'CPU µs':>8}{'ratio':>7}{'MiB':>6}"
    )
    for cost in found:
        rate, single = statistics.median(cost.accepted), statistics.median(cost.one_by_one)
        print(
            f"{cost.extent:<12}{rate:>12,.0f}{rate / statistics.median(plain.accepted):>7.2f}"
            f"{statistics.median(cost.p99):>8.1f}{single:>11,.0f}{single / statistics.median(plain.one_by_one):>7.2f}"
            f"{statistics.median(cost.drained):>11,.0f}{statistics.median(cost.cpu):>8.1f}"
            f"{statistics.median(cost.cpu) / statistics.median(plain.cpu):>7.2f}{cost.rss:>6.0f}"
        )


if __name__ == "__main__":
    main()
