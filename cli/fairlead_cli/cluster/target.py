"""Cluster, namespace and selectors of a command: kubectl's options with kubectl's defaults."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from fairlead_wire.objects import api_group

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube


FORBIDDEN = 403
NO_SUCH_PATH = "404 page not found"
"""An API server's answer for kinds that are not defined."""
F = TypeVar("F", bound=Callable[..., Any])
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The values of the options; made by ``options``."""

    kubeconfig: Path | None = None
    context: str | None = None
    given_namespace: str | None = None
    all_namespaces: bool = False
    selector: str = ""

    @property
    def namespace(self) -> str:
        """The namespace; "" with -A."""
        if self.all_namespaces:
            return ""
        return self.given_namespace or _context_namespace(self._file(), self.context) or "default"

    def path(self, plural: str, root: str = api_group.ROOT) -> str:
        """The path of a collection, in the given namespace or, with -A, in all."""
        namespace = self.namespace
        return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"

    def contexts(self) -> list[str]:
        """Names of the kubeconfig's contexts; none if it cannot be read."""
        return list(_contexts(self._file())[0])

    def query(self) -> dict[str, str]:
        """Query parameters for -l."""
        return {"labelSelector": self.selector} if self.selector else {}

    def ask(self, question: Callable[[Kube], Awaitable[Found]]) -> Found:
        """The answer to one question.  Raises ``click.ClickException``."""

        async def asked() -> Found:
            client = self._client()
            try:
                return await question(client)
            finally:
                await client.close()

        with _sentences(self._file()):
            return asyncio.run(asked())

    def pages(self, source: Callable[[Kube], AsyncIterator[Found]]) -> Iterator[Found]:
        """The items of an asynchronous source, for a command that follows it.  Raises ``click.ClickException``."""

        async def opened() -> Kube:
            return self._client()

        with _sentences(self._file()), asyncio.Runner() as runner:
            client = runner.run(opened())
            found = source(client)
            try:
                while True:
                    try:
                        yield runner.run(_next(found))
                    except StopAsyncIteration:
                        return
            finally:
                runner.run(_closed(found, client))

    def _file(self) -> str | None:
        if self.kubeconfig is not None:
            return str(self.kubeconfig)
        if named := os.environ.get("KUBECONFIG"):
            return named
        usual = Path.home() / ".kube" / "config"
        return str(usual) if usual.exists() else None

    def _client(self) -> Kube:
        from fairlead_hub.io.cluster import api_access, kube

        return kube.Kube(api_access.load(self._file(), self.context))


def options(*, namespace: bool = False, all_namespaces: bool = False, selector: bool = False) -> Callable[[F], F]:
    """Adds --kubeconfig and --context, and on request -n, -A and -l; passes ``target`` to the command."""

    def decorate(command: F) -> F:
        @wraps(command)
        def with_target(*arguments: Any, kubeconfig: Path | None, context: str | None, **rest: Any) -> Any:
            found = Target(
                kubeconfig=kubeconfig,
                context=context,
                given_namespace=rest.pop("namespace", None),
                all_namespaces=rest.pop("all_namespaces", False),
                selector=rest.pop("selector", ""),
            )
            return command(*arguments, target=found, **rest)

        wrapped: Any = with_target
        for option in (
            click.option(
                "--context",
                metavar="NAME",
                shell_complete=_names("contexts"),
                help="Context of the kubeconfig; default: the current one.",
            ),
            click.option(
                "--kubeconfig",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="Use the API server of this file; default: KUBECONFIG, ~/.kube/config, or in-cluster.",
            ),
            *([_SELECTOR] if selector else []),
            *([_ALL_NAMESPACES] if all_namespaces else []),
            *([_NAMESPACE] if namespace else []),
        ):
            wrapped = option(wrapped)
        return cast(F, wrapped)

    return decorate


def _names(of: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Completion function; the module that asks the cluster is imported when it is called."""

    def found(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from fairlead_cli.cluster import names

        complete: Any = getattr(names, of)
        return list(complete(context, parameter, incomplete))

    return found


_NAMESPACE = click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=_names("namespaces"),
    help="Namespace; default: the context's, or `default`.",
)
_ALL_NAMESPACES = click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")
_SELECTOR = click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Label selector, as for kubectl: zone=eu,tier!=test."
)


def _context_namespace(file: str | None, context: str | None) -> str | None:
    """The namespace of the kubeconfig's context."""
    contexts, current = _contexts(file)
    namespace = contexts.get(current if context is None else context)
    return namespace if isinstance(namespace, str) else None


def _contexts(file: str | None) -> tuple[dict[str, Any], str]:
    """Namespaces by context, and the current context; errors are reported when the cluster is asked."""
    if file is None:
        return {}, ""
    from kubernetes import config
    from yaml import YAMLError

    try:
        found, current = config.list_kube_config_contexts(file)  # type: ignore[no-untyped-call]
        named = {str(each["name"]): (each.get("context") or {}).get("namespace") for each in found}
        return named, str((current or {}).get("name", ""))
    except (config.ConfigException, OSError, ValueError, TypeError, YAMLError, RecursionError, AttributeError):
        return {}, ""


class _sentences:
    """Turns errors of the API client into ``click.ClickException``."""

    def __init__(self, file: str | None) -> None:
        self._file = file

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, click.ClickException):
            return
        from fairlead_hub.io.cluster import api_access, api_error

        if isinstance(error, api_access.ConfigError):
            remedy = "use --kubeconfig FILE or --context NAME, or --hub URL if the command has that option"
            raise click.ClickException(f"cannot reach a hub or a cluster: {error}; {remedy}") from None
        if isinstance(error, api_error.ApiRefused) and error.status == 404 and NO_SUCH_PATH in str(error):
            remedy = "is this the right --context? If so, install the chart, whose CRDs define them"
            raise click.ClickException(f"Fairlead's kinds are not defined in this cluster; {remedy}") from None
        if isinstance(error, api_error.ApiUnreachable):
            where = f"`server` in {self._file}" if self._file else "the network"
            raise click.ClickException(f"{error}; check {where}, and that the API server runs") from None
        if isinstance(error, api_error.ApiRefused) and error.status == FORBIDDEN:
            raise click.ClickException(f"{error}; ask an administrator for this permission, or use --context") from None
        if isinstance(error, (api_error.ApiRefused, api_error.ApiUnavailable)):
            raise click.ClickException(str(error)) from None


async def _next(source: AsyncIterator[Found]) -> Found:
    return await anext(source)


async def _closed(source: AsyncIterator[Any], client: Kube) -> None:
    closing = getattr(source, "aclose", None)
    if closing is not None:
        await closing()
    await client.close()


APART_SECONDS = 30.0
"""A larger difference between the two clocks is reported."""


# ── the API server's clock ────────────────────────────────────────────────────────────────────────────────────────────


async def ask_time(kube: Kube) -> datetime.datetime:
    """The API server's time, before any other request.  Raises ``ApiUnavailable``."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    with contextlib.suppress(ApiRefused):  # a refusal has a date, too
        await kube.get("version")
    return server_time(kube)


def server_time(kube: Kube) -> datetime.datetime:
    """The API server's time: that of its last answer, plus the time since then."""
    said, at = kube.date
    try:
        return parsedate_to_datetime(said) + datetime.timedelta(seconds=time.time() - at)
    except (ValueError, TypeError, OverflowError):
        return datetime.datetime.now(datetime.UTC)


def clock_note(kube: Kube) -> str:
    """A note if this machine's clock differs from the API server's, else ""."""
    apart = abs((server_time(kube) - datetime.datetime.now(datetime.UTC)).total_seconds())
    said = f"this machine's clock differs from the API server's by {apart:.0f} s; the API server's time was used"
    return said if apart > APART_SECONDS else ""
