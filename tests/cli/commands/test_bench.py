"""`fairlead bench nodes` against the real hub."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from click.testing import CliRunner
from tests.support.hubs.hub import HubProcess

from fairlead_cli.commands.bench import BEHAVIOURS
from fairlead_cli.main import build
from fairlead_cli.simulated_node import Behaviour


@pytest.mark.verify
def test_simulated_nodes_are_served_and_counted(asked_hub: HubProcess) -> None:
    """One known node gets its objects; a stranger is refused and counted."""
    arguments = ["bench", "nodes", "--hub", asked_hub.url, "--prefix", "edge-fa", "--count", "1", "--seconds", "1"]
    done = CliRunner().invoke(build(), [*arguments, "-o", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["refused"] == {"node_unknown": 1}


def test_wss_needs_certificates() -> None:
    done = CliRunner().invoke(build(), ["bench", "nodes", "--hub", "wss://127.0.0.1:1"])
    assert done.exit_code == 2 and "--tls-ca" in done.output


def test_an_unknown_behaviour_is_refused() -> None:
    done = CliRunner().invoke(build(), ["bench", "nodes", "--behaviour", "rude"])
    assert done.exit_code == 2 and "never-ack" in done.output


def test_the_behaviours_that_can_be_asked_for_are_those_of_a_simulated_node() -> None:
    assert get_args(Behaviour) == BEHAVIOURS
