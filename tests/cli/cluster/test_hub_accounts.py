"""Accounts of hubs: how one is written, and when there is one to take."""

from __future__ import annotations

import click
import pytest

from fairlead_cli.cluster import hub_role
from fairlead_cli.cluster.hub_role import ServiceAccount

ONE, TWO = ServiceAccount("fairlead", "hub"), ServiceAccount("other", "hub")


def test_as_it_is_written() -> None:
    """NAMESPACE:NAME."""
    assert hub_role.parse("fairlead:hub") == ONE and hub_role.parse(None) is None


@pytest.mark.parametrize("text", ["hub", ":hub", "fairlead:", "a/b:c"])
def test_anything_else_is_wrong_use(text: str) -> None:
    """With an example."""
    with pytest.raises(click.UsageError, match="must be NAMESPACE:NAME, as in fairlead:fairlead-hub"):
        hub_role.parse(text)


def test_the_only_one_is_taken() -> None:
    """Of several, or of none, one has to be named."""
    assert hub_role.one_of([ONE]) == ONE
    with pytest.raises(click.ClickException, match="fairlead:hub, other:hub"):
        hub_role.one_of([ONE, TWO])
    with pytest.raises(click.ClickException, match="no Pod of a hub is there"):
        hub_role.one_of([])
