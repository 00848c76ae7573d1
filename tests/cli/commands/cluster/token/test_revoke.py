"""`fairlead token revoke` on the real API server."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from tests.support.joining.tokens_command import run
from tests.support.kube.cluster import Cluster

from fairlead_cli.main import build
from fairlead_wire.identity import join_token


@pytest.mark.kube
def test_tokens_are_revoked(tokens: Cluster) -> None:
    """By id or by text; a second time it is none, exit 1."""
    texts = [run(tokens, "create", "--node", "shop-6").stdout.splitlines()[0] for _ in range(2)]
    ids = [join_token.parse(text).id for text in texts]
    done = run(tokens, "revoke", texts[0], ids[1])
    assert done.stdout == f"jointoken/{ids[0]} revoked\njointoken/{ids[1]} revoked\n"
    done = run(tokens, "revoke", ids[0])
    assert done.exit_code == 1 and "is none" in done.stdout


def test_an_id_that_is_none_is_wrong_use() -> None:
    done = CliRunner().invoke(build(), ["token", "revoke", "shop-17"])
    assert done.exit_code == 2 and "an id of a token is ten letters" in done.stderr
