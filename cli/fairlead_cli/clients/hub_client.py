"""The HTTP client of a hub; without a hub, commands read the API objects it wrote (``cluster``)."""

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
    """Adds --hub and --config, which make a command ask a running hub."""
    for add in (
        click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Ask the hub with this settings file, at its http_listen.",
        ),
        click.option(
            "--hub", envvar=HUB_VARIABLE, metavar="URL", help="Ask this hub, for example http://127.0.0.1:10002."
        ),
    ):
        command = add(command)
    return command


def hub_url(hub: str | None, config: Path | None) -> str | None:
    """The hub's address; None: read the API objects instead.  Raises ``click.UsageError`` for a bad address."""
    if hub is not None:
        return _checked(hub, "--hub")
    if config is None:
        return None
    listen = settings_of(config).get("http_listen", DEFAULT_LISTEN)
    return _checked(f"http://{listen}", f"{config}: http_listen")


def settings_of(config: Path) -> dict[str, Any]:
    """The content of a settings file, unchecked.  Raises ``click.UsageError`` with file and reason."""
    import tomllib

    try:
        return tomllib.loads(config.read_text())
    except RecursionError:
        reason = "nested too deeply"
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:  # not TOML, or not UTF-8
        reason = str(error)
    raise click.UsageError(f"{config}: cannot be read as TOML: {reason}")


def _checked(url: str, whose: str) -> str:
    try:
        return addresses.url(url, example=f"http://{DEFAULT_LISTEN}")
    except ValueError as error:
        raise click.UsageError(f"{whose}: {error}") from None


def ask(url: str, path: str, *, expected: str = "", **query: str) -> dict[str, Any]:
    """The decoded answer of a GET; ``expected`` is a key that it must have.  Raises ``click.ClickException``."""
    full = f"{url}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
    try:
        status, kind, content = _get(full)
    except urllib.error.URLError as error:
        why = error.reason.strerror if isinstance(error.reason, OSError) else None
        raise click.ClickException(
            f"the hub at {url} does not answer: {why or error.reason}"
            f"{addresses.scheme_hint(url, error) or '; is it running?'} {WHERE}"
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        hint = addresses.scheme_hint(url, error)
        raise click.ClickException(f"{url} is not a hub: it does not speak HTTP ({error!r}){hint}; {WHERE}") from None
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
    """Turn the errors of reading another version's answer into a sentence; None: no hub was asked."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if url is None:
            raise
        raise click.ClickException(f"{url} is not a hub of this version: {error!r} in its answer") from None


def _is_hub(url: str) -> bool:
    """True if a hub answers there: other programs have the same form of errors, but only a hub lists nodes."""
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
    """Redirects are refused: a hub sends none."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
