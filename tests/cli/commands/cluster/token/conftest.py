"""A cluster that knows join tokens, for the commands of `fairlead token`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.hubs.hub import CRDS
from tests.support.joining.token_hub import introducing
from tests.support.joining.tokens_command import PIN, URL
from tests.support.kube.cluster import Cluster

from fairlead_cli.cluster import join_tokens


@pytest.fixture(scope="module")
def tokens(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that knows join tokens, and a hub that introduces itself."""
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    with introducing(cluster, [PIN], URL):
        yield cluster
    for path in (join_tokens.PATH, "api/v1/nodes"):
        cluster.kubectl("delete", "--raw", f"/{path}")
