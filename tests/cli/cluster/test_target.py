"""Which cluster and namespace: kubectl's options and defaults."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import AsyncIterator
from email.utils import format_datetime
from pathlib import Path
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner
from tests.support.kube.cluster import Cluster

from fairlead_cli.cluster import target
from fairlead_cli.cluster.target import Target
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnreachable
from fairlead_hub.io.cluster.kube import Kube
from fairlead_wire.objects import api_group


def kubeconfig(folder: Path, server: str = "http://127.0.0.1:1") -> Path:
    """Two contexts; the current one has a namespace."""
    path = folder / "kubeconfig"
    contexts = [("one", {"cluster": "c", "user": "u", "namespace": "shop"}), ("two", {"cluster": "c", "user": "u"})]
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": name, "context": context} for name, context in contexts],
                "current-context": "one",
            }
        )
    )
    return path


def test_the_namespace(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path)
    assert Target(kubeconfig=path).namespace == "shop"
    assert Target(kubeconfig=path, context="two").namespace == "default"
    assert Target(kubeconfig=path, context="three").namespace == "default"
    assert Target(kubeconfig=path, given_namespace="n").path("objectsyncs").endswith("/namespaces/n/objectsyncs")
    assert Target(kubeconfig=path, all_namespaces=True).path("objectsyncs") == f"{api_group.ROOT}/objectsyncs"


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path)))
    assert Target().namespace == "shop"
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Target().namespace == "default"


def test_options() -> None:
    seen: list[Target] = []

    @click.command()
    @target.options(namespace=True, all_namespaces=True, selector=True)
    def command(target: Target) -> None:
        seen.append(target)

    assert CliRunner().invoke(command, ["-n", "shop", "-l", "a=b", "--context", "c"]).exit_code == 0
    assert seen == [Target(given_namespace="shop", selector="a=b", context="c")]
    assert seen[0].query() == {"labelSelector": "a=b"} and Target().query() == {}


def test_what_cannot_be_asked_is_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("{}")

    async def never(kube: Kube) -> None:
        raise AssertionError("no cluster is to be asked")

    with pytest.raises(click.ClickException, match=r"cannot reach a hub or a cluster: .*broken.*use --kubeconfig"):
        Target(kubeconfig=broken).ask(never)
    with pytest.raises(click.ClickException, match="three"):
        Target(kubeconfig=kubeconfig(tmp_path), context="three").ask(never)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ApiRefused(403, "nodes is forbidden"), "nodes is forbidden; ask an administrator for this permission"),
        (ApiUnreachable("cannot reach it"), "cannot reach it; check `server` in KUBECONFIG, and that the API server"),
    ],
)
def test_an_error_has_its_remedy(error: Exception, said: str, tmp_path: Path) -> None:
    async def refused(_: Kube) -> None:
        raise error

    path = kubeconfig(tmp_path)
    with pytest.raises(click.ClickException) as failed:
        Target(kubeconfig=path).ask(refused)
    assert said.replace("KUBECONFIG", str(path)) in failed.value.message


def test_a_refusal_is_one_sentence(cluster: Cluster) -> None:
    """What the API server says, and exit code 1; in what is followed, too."""
    asked = Target(kubeconfig=cluster.kubeconfig)
    with pytest.raises(click.ClickException, match=r"Fairlead's kinds are not defined in this cluster"):
        asked.ask(lambda kube: kube.get("apis/fairlead.dev/v9/edgenodes"))
    with pytest.raises(click.ClickException, match="answered 404"):
        asked.ask(lambda kube: kube.get("api/v1/nodes/none-of-these"))

    async def one(kube: Kube) -> AsyncIterator[bytes]:
        yield await kube.get("api/v1/nodes/none-of-these")

    with pytest.raises(click.ClickException, match="answered 404"):
        list(asked.pages(one))


# ---- whose time counts where a person types ----


YEAR = datetime.timedelta(days=365)


class Api:
    """An API server that is ``off`` from this machine's clock; what it answers, it refuses."""

    def __init__(self, off: datetime.timedelta) -> None:
        self._off = off
        self.date = ("", 0.0)

    async def get(self, path: str) -> bytes:
        self.date = format_datetime(datetime.datetime.now(datetime.UTC) + self._off, usegmt=True), time.time()
        raise ApiRefused(403, f"{path} is not for you")


@pytest.mark.parametrize("off", [YEAR, -YEAR])
async def test_the_time_is_the_servers_also_where_it_refuses_all_else(off: datetime.timedelta) -> None:
    kube = cast(Kube, Api(off))
    found = await target.ask_time(kube)
    assert abs(found - datetime.datetime.now(datetime.UTC) - off) < YEAR / 2
    assert "differs from the API server's" in target.clock_note(kube)


@pytest.mark.parametrize("said", ["", "tomorrow", "Mon, 99 Nov 2026 99:00:00 GMT"])
def test_without_a_date_it_is_this_machines(said: str) -> None:
    kube: Any = Api(YEAR)
    kube.date = said, time.time()
    assert abs(target.server_time(kube) - datetime.datetime.now(datetime.UTC)) < YEAR / 2
    assert target.clock_note(kube) == ""
