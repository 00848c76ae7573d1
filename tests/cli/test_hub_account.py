"""Where `status` and `explain` ask, and what they say when nobody answers."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from fairlead_cli import hub_account


def test_the_hub_wins_over_its_settings(tmp_path: Path) -> None:
    """--hub, else http_listen of --config, else nobody: then the API objects are asked."""
    config = tmp_path / "hub.toml"
    config.write_text('http_listen = "127.0.0.1:7"\n')
    assert hub_account.hub_url("http://there/", config) == "http://there"
    assert hub_account.hub_url(None, config) == "http://127.0.0.1:7"
    assert hub_account.hub_url(None, None) is None


def test_a_hub_that_does_not_answer_is_one_sentence() -> None:
    with pytest.raises(click.ClickException, match=r"the hub at http://127.0.0.1:1 does not answer"):
        hub_account.ask("http://127.0.0.1:1", "/v1/nodes")


def test_the_hubs_own_reason_is_passed_on(hub_http: str) -> None:
    """A 400 carries what is missing."""
    with pytest.raises(click.ClickException, match="node: needed"):
        hub_account.ask(hub_http, "/v1/explain", kind="x", name="y")


def test_no_cluster_to_ask_is_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "kubeconfig"
    broken.write_text("{}")

    async def never(kube: object) -> None:
        raise AssertionError("there is nobody to ask")

    with pytest.raises(click.ClickException, match=r"no hub and no cluster to ask: .*kubeconfig"):
        hub_account.survey(broken, never)


def test_tables_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    hub_account.print_table(("A", "LONG"), [("wide cell", 1), ("x", 22)])
    assert capsys.readouterr().out == "A           LONG\nwide cell   1\nx           22\n"
