"""The messaging service's address and our credentials, for the commands that ask it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click

from fairlead_cli import completing
from fairlead_cli.clients.hub_client import settings_of
from fairlead_cli.text import printable
from fairlead_wire.validation import mistakes

if TYPE_CHECKING:
    from fairlead_messaging.client.io.connections import Tls
    from fairlead_messaging.client.io.sync_client import Client

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_URL = "http://127.0.0.1:11015"
HOW_TO_NAME = "--url URL or --config FILE (a program's settings)"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")
_MISSING = re.compile(rf"topic (?P<namespace>{_NAME.pattern})/(?P<name>{_NAME.pattern}) does not exist")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The values of the options."""

    url: str
    named: bool = True
    """False: no address was given, so this is the default."""
    ca: Path | None
    cert: Path | None
    key: Path | None
    token_file: Path | None = None


class TopicName(click.ParamType[tuple[str, str]]):
    """NAMESPACE/NAME, or NAME in `default`."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        namespace, slash, name = str(value).rpartition("/")
        if not name or (slash and not namespace):
            self.fail("write NAMESPACE/NAME or NAME", param, ctx)
        if not (_NAME.fullmatch(name) and _NAME.fullmatch(namespace or "default")):
            self.fail(f"a name has at most 200 letters, digits, _ and -, not {mistakes.shown(value)}", param, ctx)
        return namespace or "default", name

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        return completing.beginning(incomplete, completing.within(lambda: _names(ctx, incomplete)))


def _names(context: click.Context, incomplete: str) -> list[str]:
    """Topics of `default` and all namespaces; after a slash, the topics of that namespace."""
    from fairlead_messaging.client.io.sync_client import Client

    said = {name: completing.given(context, name) for name in _NAMES}
    asked = account(said.pop("url"), **{name: Path(file) if file else None for name, file in said.items()})
    with Client(asked.url, tls=tls_of(asked), timeout_seconds=completing.limit()) as client:
        namespace, slash, _ = incomplete.rpartition("/")
        names = [f"{namespace}/{name}" if slash else name for name in client.topics(namespace or "default")]
        return names if slash else [*names, *(f"{each}/" for each in client.namespaces())]


output = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
topic = click.argument("topic", type=TopicName())


def options(command: F) -> F:
    """Adds --url, --config, --ca, --cert, --key and --token-file, which ``service`` uses."""

    @wraps(command)
    def with_account(
        *arguments: Any,
        url: str | None,
        config: Path | None,
        ca: Path | None,
        cert: Path | None,
        key: Path | None,
        token_file: Path | None,
        **rest: Any,
    ) -> Any:
        context = click.get_current_context()
        given: dict[str, Any] = dict(zip(_NAMES, (url, config, ca, cert, key, token_file), strict=True))
        context.meta[_GIVEN] = given
        context.obj = account(**given)
        return command(*arguments, **rest)

    wrapped: Any = with_account
    for option in _OPTIONS:
        wrapped = option(wrapped)
    return cast(F, wrapped)


def accept_after(group: click.Group) -> None:
    """Let every command below the group accept its connection options too: after its name, and not in its help."""
    _accept(group, [each for each in group.params if isinstance(each, click.Option) and each.name in _NAMES])


def _accept(group: click.Group, shared: list[click.Option]) -> None:
    for command in group.commands.values():
        taken = {text for parameter in command.params for text in parameter.opts}
        command.params += [_given_later(option) for option in shared if taken.isdisjoint(option.opts)]
        if isinstance(command, click.Group):
            _accept(command, shared)


def _given_later(option: click.Option) -> click.Option:
    """The option of the group as one of a command below it, which takes precedence."""

    def use(context: click.Context, _: click.Parameter, value: Any) -> None:
        given = context.meta.get(_GIVEN)
        if value is not None and given is not None:
            context.meta[_GIVEN] = given = {**given, option.name: value}
            context.obj = account(**given)

    # The name differs from that of any argument of the command (`subscriptions put TOPIC NAME URL`).
    return click.Option(
        [*option.opts, f"service_{option.name}"], type=option.type, hidden=True, expose_value=False, callback=use
    )


_NAMES = ("url", "config", "ca", "cert", "key", "token_file")
_GIVEN = f"{__name__}.given"
"""Key of ``Context.meta``: the values of the connection options."""
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option(
        "--token-file",
        type=_FILE,
        envvar="FAIRLEAD_MESSAGING_TOKEN_FILE",
        show_envvar=True,
        help="A ServiceAccount token, instead of --cert and --key: kubectl create token NAME --audience "
        "fairlead-messaging.",
    ),
    click.option("--key", type=_FILE, envvar="FAIRLEAD_MESSAGING_TLS_KEY", show_envvar=True, help="Client key."),
    click.option(
        "--cert", type=_FILE, envvar="FAIRLEAD_MESSAGING_TLS_CERT", show_envvar=True, help="Client certificate."
    ),
    click.option(
        "--ca",
        type=_FILE,
        envvar="FAIRLEAD_MESSAGING_TLS_CA",
        show_envvar=True,
        help="CA that signed the service's certificate.",
    ),
    click.option(
        "--config",
        type=_FILE,
        help="A program's settings file, which gives messaging_url, tls_ca, tls_cert and tls_key.",
    ),
    click.option(
        "--url",
        envvar="FAIRLEAD_MESSAGING_URL",
        show_envvar=True,
        help=f"Address of the messaging service; default: {DEFAULT_URL}.",
    ),
)


def account(
    url: str | None,
    config: Path | None,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    token_file: Path | None = None,
) -> Account:
    """Combine the options with the settings file; options take precedence.  Raises `click.UsageError`."""
    read = settings_of(config) if config is not None else {}
    for name in ("messaging_url", "http_listen", "tls_ca", "tls_cert", "tls_key"):
        if not isinstance(read.get(name, ""), str):
            raise click.UsageError(f"{config}: {name}: must be text, is {str(read[name])[:80]}")
    address = url or read.get("messaging_url")
    if address is None and "http_listen" in read:
        scheme = "http" if read.get("security") == "insecure" else "https"
        address = f"{scheme}://{read['http_listen']}"
    files = {
        name: given or (Path(read[f"tls_{name}"]).expanduser() if f"tls_{name}" in read else None)
        for name, given in (("ca", ca), ("cert", cert), ("key", key))
    }
    return Account(url=str(address or DEFAULT_URL), named=address is not None, token_file=token_file, **files)


@contextmanager
def to_existing(topic: tuple[str, str]) -> Iterator[None]:
    """Adds to the service's error how to create a topic that is missing."""
    from fairlead_messaging.client.errors import TopicMissing

    try:
        yield
    except TopicMissing as error:
        named = f"{error.reason or error}; create it: fairlead topics create {'/'.join(topic)}"
        raise TopicMissing(named, code=error.code, status=error.status) from None


def program_of(context: click.Context) -> str:
    """The prefix for errors of this command: `fairlead topics`, `fairlead ingest`, `fairlead tail`."""
    while context.parent is not None and context.parent.parent is not None:
        context = context.parent
    return f"fairlead {context.info_name}" if context.parent is not None else "fairlead"


def tls_of(asked: Account) -> Tls | None:
    """TLS options for https; None for http.  Raises `click.UsageError` if one is missing."""
    from fairlead_messaging.client.io.connections import Tls

    if not asked.url.startswith("https:"):
        return None
    token = str(asked.token_file or "")
    if asked.ca and token and not (asked.cert and asked.key):
        return Tls(ca=str(asked.ca), token_file=token)
    if not (asked.ca and asked.cert and asked.key):
        raise click.UsageError("https needs --ca, and --cert and --key or --token-file; or a --config that names them")
    return Tls(ca=str(asked.ca), cert=str(asked.cert), key=str(asked.key), token_file=token)


@contextmanager
def service(context: click.Context, *, patient: bool = False) -> Iterator[Client]:
    """A client of the service; its errors become a sentence and exit status 1.

    `patient`: wait up to a minute for a service that is restarting.
    """
    from fairlead_messaging.client.errors import TopicMissing
    from fairlead_messaging.client.io.sync_client import Client
    from fairlead_messaging.client.retry import PATIENT
    from fairlead_wire.errors import FairleadError, LocalError, Temporary

    asked: Account = context.find_object(Account) or Account(url=DEFAULT_URL, named=False, ca=None, cert=None, key=None)
    try:
        client = Client(asked.url, tls=tls_of(asked), retries=PATIENT if patient else None)
    except LocalError as error:
        raise click.UsageError(str(error)) from None
    try:
        with client:
            try:
                yield client
            except TopicMissing as error:
                _fail(f"{_reason(error)}{_meant_topic(client, _reason(error))}")
    except FairleadError as error:
        is_default = not asked.named and isinstance(error, Temporary)
        more = f"; {DEFAULT_URL} is the default: name the service with {HOW_TO_NAME}" if is_default else ""
        _fail(f"{_reason(error)}{more}")


def _fail(text: str) -> NoReturn:
    """End like any other command that fails."""
    click.echo(printable.lines(f"Error: {text}"), err=True)
    sys.exit(1)


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", "") or error)


def _meant_topic(client: Client, reason: str) -> str:
    """The existing topic with a name like that of the missing one, in its namespace."""
    from fairlead_wire.errors import FairleadError

    if (missing := _MISSING.search(reason)) is None:
        return ""
    with suppress(FairleadError):  # not everyone may list topics
        meant = mistakes.nearest(missing["name"], client.topics(missing["namespace"]))
        return f"; did you mean {missing['namespace']}/{meant}?" if meant else ""
    return ""
