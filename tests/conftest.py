"""Fixtures every room may use, and which tests belong to which word of the Makefile.

    make quick    no mark: one process, no JVM, no API server, and less than 0.3 s
    make test     all but `verify`
    make verify   `verify`: longer than a few seconds, or one more of a kind that `make test` has already

Each test that starts a process says so with a mark (`process`, `kube`, `spark` or `faults`); one that does not, fails.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import hypothesis
import pytest
from tests.support.kube import leftovers
from tests.support.kube.assets import NoControlPlane, assets
from tests.support.kube.cluster import Cluster

PROCESS_MARKS = frozenset(["process", "kube", "spark", "faults"])
# By what they start: the order of the files.
LONGEST_FIRST = ("spark", "kube", "faults", "process")
COMPUTES = 1
"""The rank of files with long tests that start nothing, such as the simulation: right after the first kind, so that no
worker is left alone with one at the end."""
# Against what hangs, not a promise: what verifies starts many programs, on machines that others keep busy.
VERIFY_SECONDS = 900
_WITH_CLUSTER = pytest.StashKey[set[str]]()
"""Modules with a test that asks for the cluster."""
_SHARED = pytest.StashKey["_Shared"]()
_STARTS = frozenset(["subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"])

# The same examples at every run, so that a good change is never refused by chance; `make fresh` looks for new ones.
# No time limit for one example and no complaint about slow ones: both say how busy the machine is.
_any_time = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("fixed", _any_time, derandomize=True)
hypothesis.settings.register_profile("fresh", _any_time, derandomize=False, print_blob=True)
hypothesis.settings.load_profile("fresh" if os.environ.get("FAIRLEAD_EXAMPLES") == "fresh" else "fixed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks that follow from others, and the files with long tests first.

    A test that asks for the cluster carries the mark `kube`, so that `-m "not kube"` leaves it out.
    """
    rank_of: dict[str, int] = {}
    for item in items:
        if "cluster" in _fixtures(item):
            item.add_marker(pytest.mark.kube)
        if item.get_closest_marker("faults"):
            item.add_marker(pytest.mark.verify)
        if item.get_closest_marker("verify") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(VERIFY_SECONDS))
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.fresh)
        rank = next((rank for rank, mark in enumerate(LONGEST_FIRST) if item.get_closest_marker(mark)), 9)
        if rank == 9 and item.get_closest_marker("verify"):
            rank = COMPUTES
        rank_of[_file(item)] = min(rank, rank_of.get(_file(item), 9))
    # Short ones come last, so that both workers end at about the same time.
    items.sort(key=lambda item: rank_of[_file(item)])


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


def _file(item: pytest.Item) -> str:
    """What `--dist loadfile` gives to one worker."""
    return item.nodeid.partition("::")[0]


class _Processes:
    """Which processes the test that runs has started; Python's own audit events tell."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        # The library asks `uname` for the machine's name, in whichever test comes first.
        if event in _STARTS and arguments[:1] != ("uname",):
            self.started.append(f"{event} {arguments[0] if arguments else ''}")


_processes = _Processes()
sys.addaudithook(_processes)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let an unmarked test fail that started a process, also through a fixture.

    Not at its end: the last test of a module also ends what others of the module asked for.
    """
    report = yield
    started, _processes.started = _processes.started, []
    if (
        started
        and report.passed
        and call.when != "teardown"
        and not any(item.get_closest_marker(mark) for mark in PROCESS_MARKS)
    ):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} started a process ({started[0]}): mark it with pytest.mark.process"
    return report


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane before the first test, so that no test's time limit pays for it."""
    _processes.started.clear()  # what a module starts while it is collected is not the first test's
    session.stash[_WITH_CLUSTER] = {_file(item) for item in session.items if "cluster" in _fixtures(item)}
    if session.config.option.collectonly or not any(item.get_closest_marker("kube") for item in session.items):
        return
    try:
        assets()
    except NoControlPlane as error:
        pytest.exit(str(error), returncode=1)
    _processes.started.clear()  # nor is building the control plane


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """What a test configures ends with it: a handler on a stream that is closed makes each later line cost a trace."""
    root, ours = logging.getLogger(), logging.getLogger("fairlead")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


class _Shared:
    """The cluster of the session, and what was in it when it was last looked at."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._seen = cluster, cluster.stored()

    def left(self) -> list[str]:
        """What came since the last time and may not stay."""
        before, self._seen = self._seen, self._cluster.stored()
        return leftovers.left(before, self._seen)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real API server with etcd and three controllers; shared by the session, so leave it as you found it."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        request.session.stash[_SHARED] = _Shared(running)
        yield running


@pytest.fixture(scope="module", autouse=True)
def cluster_as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a module fail that leaves something in the shared cluster: what others see must not depend on their order.

    It is made before all other fixtures of the module, and so asks behind them.
    """
    yield
    shared = request.session.stash.get(_SHARED, None)
    if shared is not None and request.node.nodeid in request.session.stash[_WITH_CLUSTER]:
        complaint = leftovers.complaint(request.node.nodeid, shared.left())
        if complaint:
            pytest.fail(complaint, pytrace=False)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of this test's own, deleted behind it."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")
