"""Asks a hub over HTTP, or, where none can be reached, the API objects it wrote."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from fairlead_hub.io.kube import Kube

SECONDS = 10.0
HUB_VARIABLE = "FAIRLEAD_HUB_URL"
Found = TypeVar("Found")


def options(command: Callable[..., None]) -> Callable[..., None]:
    """The options by which `status` and `explain` find their source."""
    for add in (
        click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True),
        click.option(
            "--kubeconfig",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Read the API objects of this cluster; default: KUBECONFIG, ~/.kube/config, in-cluster.",
        ),
        click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Settings of a hub: its http_listen is asked.",
        ),
        click.option(
            "--hub", envvar=HUB_VARIABLE, metavar="URL", help="Ask this hub, for example http://127.0.0.1:10002."
        ),
    ):
        command = add(command)
    return command


def hub_url(hub: str | None, config: Path | None) -> str | None:
    """Where to ask, or None: ask the API objects."""
    if hub is not None:
        return hub.rstrip("/")
    if config is None:
        return None
    import tomllib

    listen = tomllib.loads(config.read_text()).get("http_listen", "127.0.0.1:10002")
    return f"http://{listen}"


def ask(url: str, path: str, **query: str) -> Any:
    """GET, decoded.  A hub that cannot be asked is one sentence and exit 1."""
    full = f"{url}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(full, timeout=SECONDS) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        raise click.ClickException(_reason(error)) from None
    except urllib.error.URLError as error:
        why = error.reason.strerror if isinstance(error.reason, OSError) else None
        raise click.ClickException(f"the hub at {url} does not answer: {why or error.reason}") from None
    except (OSError, ValueError) as error:
        raise click.ClickException(f"the hub at {url} does not answer: {error}") from None


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the hub answered {error.code}"


def survey(kubeconfig: Path | None, question: Callable[[Kube], Awaitable[Found]]) -> Found:
    """Ask the API objects.  What goes wrong is one sentence and exit 1."""
    from fairlead_hub.io import kube

    path = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG")
    if path is None and (Path.home() / ".kube" / "config").exists():
        path = str(Path.home() / ".kube" / "config")

    async def asked() -> Found:
        client = kube.Kube(kube.access(path))
        try:
            return await question(client)
        finally:
            await client.close()

    try:
        return asyncio.run(asked())
    except kube.ConfigError as error:
        raise click.ClickException(f"no hub and no cluster to ask: {error}; use --hub or --kubeconfig") from None
    except (kube.Refused, kube.Unavailable) as error:
        raise click.ClickException(str(error)) from None


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


def print_table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Aligned, as kubectl prints."""
    cells = [head, *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for row in cells:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
