"""The client of an agent, on its node or through a tunnel; its options --config, --url and --token-file."""

from __future__ import annotations

import functools
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from fairlead_wire.errors import plain, text_of
from fairlead_wire.validation import addresses

if TYPE_CHECKING:
    from fairlead_edge.io.client import EdgeClient
    from fairlead_edge.settings import EdgeSettings
    from fairlead_wire.errors import FairleadError

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_URL = "http://127.0.0.1:10550"
DEVICE_SETTINGS = Path("/etc/fairlead/edge.toml")
DEVICE_VARIABLES = ("FAIRLEAD_EDGE_NODE", "FAIRLEAD_EDGE_DATA_DIR")
SECONDS = 10.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024
NOT_FOUND = 404
UNAUTHORIZED = "unauthorized"
UNAUTHORIZED_STATUS = 401
_TOKEN_FILE = f"{__name__}.token_file"
"""Key of ``Context.meta``: the file whose token the command sends."""
WITH_TOKEN = "run it with sudo, or give --url and the agent's data_dir/token with --token-file"

token_option = click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, readable=False, path_type=Path),
    metavar="FILE",
    help='The agent\'s data_dir/token; needed with --url if security = "mtls". Without --url it is found.',
)
_url_option = click.option(
    "--url", help=f"The agent's address (http_listen); default: from {DEVICE_SETTINGS}, else {DEFAULT_URL}."
)
_config_option = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, readable=False, path_type=Path),
    metavar="FILE",
    help=f"The agent's settings file, which gives its address and token; default: {DEVICE_SETTINGS}.",
)


class AgentPlace(NamedTuple):
    """The agent named by the options; None: option not given."""

    config: Path | None = None
    url: str | None = None
    token_file: Path | None = None

    def found(self) -> tuple[str, Path | None]:
        """The agent's address and token file.  Raises ``click.ClickException``."""
        if self.url is None:
            return _here(self.token_file, self.config)
        if self.config is not None:
            raise click.UsageError("--url and --config each name an agent; give one of them")
        return self.url, self.token_file


def place_options(command: F) -> F:
    """Adds --config, --url and --token-file, and passes them to the command as typed."""
    return _config_option(_url_option(token_option(command)))


def options(command: F) -> F:
    """Adds --config, --url and --token-file; passes ``url`` and ``token_file`` to the command.

    Without --url, the command gets address and token of this device's agent.  That token is never sent to another
    address.
    """

    @functools.wraps(command)
    def placed(*arguments: Any, config: Path | None, url: str | None, token_file: Path | None, **others: Any) -> Any:
        url, token_file = AgentPlace(config, url, token_file).found()
        return command(*arguments, url=url, token_file=token_file, **others)

    return cast(F, place_options(placed))


def _typed() -> AgentPlace:
    """The options of the running command, or of the group that it belongs to."""
    place = AgentPlace()
    context = click.get_current_context(silent=True)
    while context is not None:
        given = {name: context.params.get(name) for name in AgentPlace._fields}
        place = AgentPlace(*(ours if ours is not None else given[name] for name, ours in place._asdict().items()))
        context = context.parent
    return place


def _token_needed(place: AgentPlace) -> str:
    """The error for an agent that does not accept what was sent; "" if its token was not found on this device."""
    if place.token_file is not None:
        return f"the agent refused the token in {place.token_file} (401): it must be the token file in its data_dir"
    if place.url is not None:
        return "the agent requires its token: give its data_dir/token with --token-file, or --config instead of --url"
    if not has_device_settings() and place.config is None:
        return "the agent requires its token: name its settings with --config, or its data_dir/token with --token-file"
    return ""


def _why_silent(config: Path | None) -> str:
    """What this device's files say of an agent that does not answer; "" if nothing."""
    from fairlead_edge.io.moving.files import MoveFiles, MoveFilesError
    from fairlead_wire.io.settings import SettingsError

    if config is None and not has_device_settings():
        return (
            f"{DEVICE_SETTINGS} does not exist: if the device joined with --config FILE, give the same --config here"
            " and start the agent with fairlead edge run --config FILE"
        )
    try:
        left = MoveFiles(Path(device_settings(config).data_dir)).left()
    except (SettingsError, MoveFilesError):
        return ""
    if left is None:
        return ""
    return f"{left.node} was taken out of service at {left.at}; to join a hub again: fairlead edge join"


def failed(error: FairleadError) -> click.ClickException:
    """The error for people: the agent's own text about a missing token is meant for programs.

    How the agent was named is known from the options of the running command.
    """
    from fairlead_wire.errors import Permanent, Temporary

    place = _typed()
    if isinstance(error, Temporary) and place.url is None and (why := _why_silent(place.config)):
        return click.ClickException(f"{error} {why}")
    if isinstance(error, Permanent) and error.code == UNAUTHORIZED and (why := _token_needed(place)):
        return click.ClickException(why)
    if isinstance(error, Permanent) and error.code == UNAUTHORIZED:
        context = click.get_current_context(silent=True)
        if used := context and context.meta.get(_TOKEN_FILE):
            return click.ClickException(_token_refused(used))
        return click.ClickException(f"the agent requires its token: {WITH_TOKEN}")
    return click.ClickException(str(error))


def _token_refused(file: Path) -> str:
    return f"the agent refused the token in {file} (401): it must be the token file in the agent's data_dir"


def device_settings(config: Path | None = None) -> EdgeSettings:
    """The settings of this device's agent.  Raises ``SettingsError``."""
    from fairlead_edge.settings import EdgeSettings
    from fairlead_wire.io import settings as settings_io

    path = config or (DEVICE_SETTINGS if _is_there(DEVICE_SETTINGS) else None)
    return settings_io.load("edge", EdgeSettings, path, os.environ)


def has_device_settings() -> bool:
    return _is_there(DEVICE_SETTINGS) or any(name in os.environ for name in DEVICE_VARIABLES)


def no_device_settings() -> str:
    """The error if there are no settings of an agent."""
    return (
        f"no agent settings: {DEVICE_SETTINGS} does not exist. Name the file with --config; a device that belongs"
        " to no hub yet gets its settings with: fairlead edge join wss://HUB:PORT --token-file FILE"
    )


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        return True


def _may_read(path: Path) -> bool:
    """False only if permission is denied; a missing file is reported elsewhere."""
    try:
        path.open("rb").close()
    except PermissionError:
        return False
    except OSError:
        return True
    return True


def _here(token_file: Path | None, config: Path | None = None) -> tuple[str, Path | None]:
    from fairlead_wire.io.settings import SettingsError
    from fairlead_wire.validation import listen_address

    if config is None and not has_device_settings():
        return DEFAULT_URL, token_file
    file = config or DEVICE_SETTINGS
    if not _may_read(file):
        raise click.ClickException(f"{file}: Permission denied; {WITH_TOKEN}")
    try:
        settings = device_settings(config)
    except SettingsError as error:
        raise click.ClickException(f"{error}; name the agent with --url") from None
    if not settings.plain_http:
        return DEFAULT_URL, token_file
    host, port = listen_address.parse(settings.http_listen)
    own = Path(settings.data_dir) / "token"
    if token_file is None and settings.security == "mtls" and not _may_read(own):
        raise click.ClickException(f"{own}: Permission denied; {WITH_TOKEN}")
    if token_file is None and os.access(own, os.R_OK):
        token_file = own
    return f"http://{f'[{host}]' if ':' in host else host}:{port}", token_file


def client(url: str, token_file: Path | None) -> EdgeClient:
    """Raises ``click.UsageError`` if the token file cannot be read or holds no token."""
    from fairlead_edge.io.client import EdgeClient
    from fairlead_wire.errors import LocalError

    url = _checked(url)
    if (context := click.get_current_context(silent=True)) is not None:
        context.meta[_TOKEN_FILE] = token_file
    try:
        return EdgeClient(url, token=_token(token_file), patience_seconds=0)
    except (OSError, ValueError, LocalError) as error:
        raise click.UsageError(f"--token-file {token_file}: {error}") from None


def get(url: str, token_file: Path | None, path: str) -> dict[str, Any] | None:
    """An object that the agent holds; None if it has none.  Raises ``click.ClickException``."""
    url = _checked(url)
    try:
        token = _token(token_file)
        request = urllib.request.Request(f"{url}/{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token.strip()}")
        # The agent is on this machine or behind a tunnel, so proxies from the environment are ignored.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _EdgeNoRedirect())
        with opener.open(request, timeout=SECONDS) as answer:
            found = json.loads(answer.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            if error.code == NOT_FOUND:
                return None
            if error.code == UNAUTHORIZED_STATUS and token_file is not None:
                raise click.ClickException(_token_refused(token_file)) from None
            remedy = "; give the agent's data_dir/token with --token-file" if error.code in (401, 403) else ""
            raise click.ClickException(f"the agent at {url} answered {error.code}{remedy}") from None
    except urllib.error.URLError as error:
        why = plain(error.reason) if isinstance(error.reason, OSError) else error.reason
        raise click.ClickException(
            f"the agent at {url} does not answer: {why}"
            f"{addresses.scheme_hint(url, error) or '; is it running, and is this its http_listen?'}"
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        hint = addresses.scheme_hint(url, error)
        raise click.ClickException(f"{url} is not the address of an agent: {text_of(error)}{hint}") from None
    if not isinstance(found, dict):
        raise click.ClickException(f"{url} is not the address of an agent: the answer is not a JSON object")
    return found


def _checked(url: str) -> str:
    try:
        return addresses.url(url, example=DEFAULT_URL)
    except ValueError as error:
        raise click.UsageError(f"the agent's address {error}") from None


class _EdgeNoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirects are refused: an agent sends none, and the token must not reach another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _token(token_file: Path | None) -> str | None:
    """Raises ``click.UsageError``."""
    try:
        return token_file.read_text() if token_file is not None else None
    except OSError as error:
        remedy = "; run it with sudo" if isinstance(error, PermissionError) else ""
        raise click.UsageError(f"--token-file {token_file}: {error.strerror or error}{remedy}") from None
