"""Which cluster, which namespace and which objects: kubectl's own options, with kubectl's own defaults."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from fairlead_hub.io.kube import Kube

OURS = "apis/fairlead.dev/v1alpha1"
F = TypeVar("F", bound=Callable[..., Any])
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Made from the options by ``options``."""

    kubeconfig: Path | None = None
    context: str | None = None
    given_namespace: str | None = None
    all_namespaces: bool = False
    selector: str = ""

    @property
    def namespace(self) -> str:
        """The one to look in; "" with -A."""
        if self.all_namespaces:
            return ""
        return self.given_namespace or _context_namespace(self._file(), self.context) or "default"

    def path(self, plural: str, root: str = OURS) -> str:
        """Where a namespaced collection is listed: in the namespace asked for, or with -A in all."""
        namespace = self.namespace
        return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"

    def query(self) -> dict[str, str]:
        """What -l adds to a list."""
        return {"labelSelector": self.selector} if self.selector else {}

    def ask(self, question: Callable[[Kube], Awaitable[Found]]) -> Found:
        """The answer to one question. What goes wrong is one sentence and exit code 1."""

        async def asked() -> Found:
            client = self._client()
            try:
                return await question(client)
            finally:
                await client.close()

        with _sentences():
            return asyncio.run(asked())

    def pages(self, source: Callable[[Kube], AsyncIterator[Found]]) -> Iterator[Found]:
        """What an endless source gives, one after the other, for a command that follows it."""

        async def opened() -> Kube:
            return self._client()

        with _sentences(), asyncio.Runner() as runner:
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
        from fairlead_hub.io import kube

        return kube.Kube(kube.access(self._file(), self.context))


def options(*, namespace: bool = False, all_namespaces: bool = False, selector: bool = False) -> Callable[[F], F]:
    """Adds --kubeconfig and --context, and what else is named: -n, -A, -l.

    The command is given ``target``.
    """

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
                "--context", metavar="NAME", help="One of the kubeconfig's contexts; default: its current one."
            ),
            click.option(
                "--kubeconfig",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="Ask the API server of this file; default: KUBECONFIG, ~/.kube/config, in-cluster.",
            ),
            *([_SELECTOR] if selector else []),
            *([_ALL_NAMESPACES] if all_namespaces else []),
            *([_NAMESPACE] if namespace else []),
        ):
            wrapped = option(wrapped)
        return cast(F, wrapped)

    return decorate


_NAMESPACE = click.option("-n", "--namespace", metavar="NAME", help="Default: the context's, else `default`.")
_ALL_NAMESPACES = click.option("-A", "--all-namespaces", is_flag=True, help="In every namespace.")
_SELECTOR = click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Only with these labels, as kubectl's: zone=eu,tier!=test."
)


def _context_namespace(file: str | None, context: str | None) -> str | None:
    """What the kubeconfig's context says; whatever is wrong with the file, asking the cluster will say."""
    if file is None:
        return None
    from kubernetes import config
    from yaml import YAMLError

    try:
        contexts, current = config.list_kube_config_contexts(file)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError, ValueError, TypeError, YAMLError, RecursionError):
        return None
    chosen = current if context is None else next((each for each in contexts if each["name"] == context), None)
    namespace = ((chosen or {}).get("context") or {}).get("namespace")
    return namespace if isinstance(namespace, str) else None


class _sentences:
    """Turns what asking a cluster raises into what people read."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, click.ClickException):
            return
        from fairlead_hub.io import kube

        if isinstance(error, kube.ConfigError):
            remedy = "use --kubeconfig FILE or --context NAME, or --hub URL where the command takes it"
            raise click.ClickException(f"no hub and no cluster to ask: {error}; {remedy}") from None
        if isinstance(error, (kube.Refused, kube.Unavailable)):
            raise click.ClickException(str(error)) from None


async def _next(source: AsyncIterator[Found]) -> Found:
    return await anext(source)


async def _closed(source: AsyncIterator[Any], client: Kube) -> None:
    closing = getattr(source, "aclose", None)
    if closing is not None:
        await closing()
    await client.close()
