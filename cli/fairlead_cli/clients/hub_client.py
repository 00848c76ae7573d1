"""Asks a hub over HTTP; ``cluster`` asks the API objects it wrote, where no hub can be reached."""

from __future__ import annotations

import contextlib
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from fairlead_wire.validation import addresses

SECONDS = 10.0
ANSWER_BYTES_MAX = 256 * 1024 * 1024
DEFAULT_LISTEN = "127.0.0.1:10002"
WHERE = f"give the hub's http_listen, for example --hub http://{DEFAULT_LISTEN}"
HUB_VARIABLE = "FAIRLEAD_HUB_URL"


def options(command: Callable[..., None]) -> Callable[..., None]:
    """--hub and --config: by them `status` and `explain` ask a hub that runs."""
    for add in (
        click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Settings of a hub: its http_listen is the address to ask.",
        ),
        click.option(
            "--hub", envvar=HUB_VARIABLE, metavar="URL", help="Ask this hub, for example http://127.0.0.1:10002."
        ),
    ):
        command = add(command)
    return command


def hub_url(hub: str | None, config: Path | None) -> str | None:
    """Where to ask, or None: ask the API objects.  Raises ``click.UsageError`` for what is no address."""
    if hub is not None:
        return _checked(hub, "--hub")
    if config is None:
        return None
    listen = settings_of(config).get("http_listen", DEFAULT_LISTEN)
    return _checked(f"http://{listen}", f"{config}: http_listen")


def settings_of(config: Path) -> dict[str, Any]:
    """A room's settings file as it stands.  Raises ``click.UsageError`` with file and reason."""
    import tomllib

    try:
        return tomllib.loads(config.read_text())
    except RecursionError:
        reason = "nested too deeply"
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:  # no TOML, or no text
        reason = str(error)
    raise click.UsageError(f"{config}: cannot be read as TOML: {reason}")


def _checked(url: str, whose: str) -> str:
    try:
        return addresses.url(url, example=f"http://{DEFAULT_LISTEN}")
    except ValueError as error:
        raise click.UsageError(f"{whose}: {error}") from None


def ask(url: str, path: str, *, expected: str = "", **query: str) -> dict[str, Any]:
    """GET, decoded; ``expected`` is a key of the answer.  A hub that cannot be asked is one sentence and exit 1."""
    full = f"{url}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
    try:
        status, kind, content = _get(full)
    except urllib.error.URLError as error:
        why = error.reason.strerror if isinstance(error.reason, OSError) else None
        raise click.ClickException(
            f"the hub at {url} does not answer: {why or error.reason}"
            f"{addresses.scheme_hint(url, error) or '; does it run?'} {WHERE}"
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        hint = addresses.scheme_hint(url, error)
        raise click.ClickException(f"{url} is not a hub: it speaks no HTTP ({error!r}){hint}; {WHERE}") from None
    answer = _object(content)
    if status == http.HTTPStatus.OK and answer is not None and expected in ("", *answer):
        return answer
    refusal = answer.get("error") if answer is not None else None
    message = refusal.get("message") if isinstance(refusal, dict) else None
    if isinstance(message, str) and _is_hub(url):
        raise click.ClickException(message)
    what = f": {message}" if isinstance(message, str) else f" with {kind}" if kind else ""
    raise click.ClickException(f"{url} is not a hub: it answered {status}{what}; {WHERE}")


@contextlib.contextmanager
def readable(url: str | None) -> Iterator[None]:
    """An answer that is none of this version's becomes one sentence; None: no hub was asked."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if url is None:
            raise
        raise click.ClickException(f"{url} is not a hub of this version: {error!r} in its answer") from None


def _is_hub(url: str) -> bool:
    """Other programs answer in the same form; only a hub lists nodes."""
    try:
        status, _, content = _get(f"{url}/v1/nodes")
    except (OSError, ValueError, http.client.HTTPException):
        return False
    return status == http.HTTPStatus.OK and "nodes" in (_object(content) or {})


def _get(url: str) -> tuple[int, str, bytes]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _HubNoRedirect())
    try:
        with opener.open(url, timeout=SECONDS) as answer:
            return answer.status, answer.headers.get_content_type(), answer.read(ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get_content_type(), error.read(ANSWER_BYTES_MAX)


class _HubNoRedirect(urllib.request.HTTPRedirectHandler):
    """A hub never redirects."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
