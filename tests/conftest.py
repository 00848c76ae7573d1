"""Fixtures every room may use: a real Kubernetes API for the session, a namespace for one test."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator

import pytest
from tests.support.assets import NoControlPlane, assets
from tests.support.cluster import Cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for the cluster carries the mark `kube`, so that `-m "not kube"` leaves it out."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kube)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane before the first test, so that no test's time limit pays for it."""
    if session.config.option.collectonly or not any(item.get_closest_marker("kube") for item in session.items):
        return
    try:
        assets()
    except NoControlPlane as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """What a test configures ends with it: a handler on a stream that is closed makes each later line cost a trace."""
    root, ours = logging.getLogger(), logging.getLogger("fairlead")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real API server with etcd and three controllers; shared by the session, so leave it as you found it."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of this test's own, deleted behind it."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")
