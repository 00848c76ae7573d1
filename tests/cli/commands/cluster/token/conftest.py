"""A cluster that knows join tokens, for the commands of `fairlead token`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.cluster import Cluster
from tests.support.hub import CRDS
from tests.support.token_hub import introducing
from tests.support.tokens_command import PIN, URL

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
