"""`fairlead bundle`: collects diagnostics in one archive, without secrets."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import io
import json
import os
import platform
import re
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairlead_cli.clients import hub_client
from fairlead_cli.cluster import collections
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.output.progress import ProgressBar
from fairlead_cli.parameters import Url
from fairlead_wire import distribution
from fairlead_wire.objects import api_group
from fairlead_wire.objects.api_group import GROUP

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube


HIDDEN: Final = "(hidden)"
NESTING_MAX: Final = 100
_SAYS: Final = r"passw(?:or)?d|passphrase|secret|token|credential|api[-_]?key|access[-_]?key|account[-_]?key"
_NAMES: Final = re.compile(
    rf"{_SAYS}|authorization|cookie|private|signature|pwd|(?:^|[-_])pass(?:$|[-_])",
    re.IGNORECASE,
)
HARMLESS: Final = frozenset(
    ["secretname", "secretref", "secretkeyref", "automountserviceaccounttoken", "token_file", "tokens_file", "secrets"]
)
"""Keys that hold the names of Secrets, not their content."""
_VALUE: Final = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\\{1,8}["'][^"'\n]*["']?|[^\s,;}"'\\]+)"""
"""In quotes, in escaped quotes (JSON within JSON), or bare."""
# These patterns do not look for the beginning of a word, and all repetitions are bounded: a log may have a line of many
# megabytes, for which a pattern that begins with "any letters" would take quadratic time.
_ASSIGNED: Final = re.compile(
    rf"""((?:{_SAYS}|\bpass|pwd|\bsig)[\w.-]{{0,64}}\\{{0,8}}["']?\s{{0,8}}[=:]\s{{0,8}}){_VALUE}""",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(
    r"""((?:authorization|cookie)\\{0,8}["']?\s{0,8}[=:]\s{0,8}\\{0,8}["']?)[^"'\n\\]+""", re.IGNORECASE
)
_OPTION: Final = re.compile(
    rf"(--[\w-]{{0,32}}(?:{_SAYS})(?![\w-]{{0,32}}file)[\w-]{{0,32}}[ \t]{{1,8}}){_VALUE}", re.IGNORECASE
)
_FLAG: Final = re.compile(rf"--?[\w-]{{0,32}}(?:{_SAYS})(?![\w-]{{0,32}}file)[\w-]{{0,32}}", re.IGNORECASE)
"""An option of a command line whose value is the next word."""
_FORMS: Final = (
    re.compile(
        r"-----BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,64}PRIVATE KEY-----|\Z)", re.DOTALL
    ),
    re.compile(r"\bBearer\s{1,8}[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"\bBasic\s{1,8}[A-Za-z0-9+/=]{8,}"),
    re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(r"\bfl1-[A-Za-z0-9_-]{8,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
)
_ADDRESS: Final = re.compile(r"(://)(?:[^/\s@\"']+|[^/\s@\"':]{1,512}:[^\s@\"']{1,1024})@")
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation with the whole object as text."""
COLLECTIONS = {
    **{name: (f"{api_group.ROOT}/{name}", "") for name in ("syncrules", "edgeroutes", "edgenodes", "jointokens")},
    **{name: (f"{api_group.ROOT}/{name}", "") for name in ("objectsyncs", "clusterobjectsyncs")},
    "definitions": ("apis/apiextensions.k8s.io/v1/customresourcedefinitions", ""),
    "leases": ("apis/coordination.k8s.io/v1/leases", ""),
    "nodes": ("api/v1/nodes", "node-role.kubernetes.io/edge"),
    "pods": ("api/v1/pods", "app.kubernetes.io/part-of=fairlead"),
    "events": ("api/v1/events", ""),
}
"""File name → path and labels.  Delivered objects and Secrets are never included."""
FILE_BYTES_MAX = 16 * 1024 * 1024
"""Longer logs lose their beginning, other documents their end."""
SECONDS = 10.0
MODE = 0o600


def register(root: click.Group) -> None:
    """Add `bundle` to the root command."""
    root.add_command(bundle)


@click.command(short_help="Collect diagnostics in one archive, without secrets.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Output file; default: a name with the current time.",
)
@click.option(
    "--hub",
    type=Url(),
    envvar=hub_client.HUB_VARIABLE,
    metavar="URL",
    help="Also include the status and metrics of this hub.",
)
@click.option(
    "--messaging",
    type=Url(),
    envvar="FAIRLEAD_MESSAGING_URL",
    metavar="URL",
    help="Also include the metrics of this messaging service.",
)
@click.option("--edge", type=Url(), help="Also include the metrics and readiness of this agent.")
@click.option(
    "--log",
    "logs",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help=f"Also include the last {FILE_BYTES_MAX >> 20} MiB of this log; may be repeated.",
)
@targets.options(namespace=True)
def bundle(
    out: Path | None,
    hub: str | None,
    messaging: str | None,
    edge: str | None,
    logs: tuple[Path, ...],
    target: Target,
) -> None:
    """Write a .tar.gz with Fairlead's objects, versions, metrics, logs, and the findings of `fairlead doctor
    --cluster`.

    Delivered objects and Secrets are not included, and anything that looks like a password, token or key is hidden.
    Parts that cannot be read are listed in errors.txt.

    \b
    fairlead bundle
    fairlead bundle --hub http://127.0.0.1:10002 --log hub.log --out case-7.tar.gz
    """
    now = datetime.datetime.now(datetime.UTC)
    path = out or Path(f"fairlead-bundle-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    parts = [*_cluster_parts(target), *_http_parts(hub, messaging, edge), *_log_parts(logs)]
    errors: list[str] = []
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    except FileExistsError:
        raise click.UsageError(f"{path} already exists: name another file with --out") from None
    except (OSError, ValueError) as error:  # ValueError: an invalid file name
        raise click.ClickException(f"{path} cannot be written: {getattr(error, 'strerror', '') or error}") from None
    try:
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            _write(archive, parts, errors, now)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from None
    except BaseException:
        path.unlink(missing_ok=True)  # an incomplete archive would look complete
        raise
    click.echo(path)
    missing = f"; {len(errors)} parts could not be read (errors.txt)" if errors else ""
    click.echo(f"{path.stat().st_size:,} bytes{missing}. Check its content before you share it.", err=True)


Part = tuple[str, Callable[[], str]]


def _write(archive: tarfile.TarFile, parts: list[Part], errors: list[str], now: datetime.datetime) -> None:
    with ProgressBar("collecting", len(parts)) as progress:
        for name, read in parts:
            try:
                _add(archive, name, read(), now)
            except click.ClickException as error:
                errors.append(f"{name}: {text(error.message)}")
            except (OSError, ValueError, http.client.HTTPException) as error:
                errors.append(f"{name}: {text(str(error))}")
            progress.add(1)
    if errors:
        _add(archive, "errors.txt", "\n".join([*errors, ""]), now)


def _add(archive: tarfile.TarFile, name: str, content: str, now: datetime.datetime) -> None:
    data = content.encode(errors="replace")
    entry = tarfile.TarInfo(f"fairlead-bundle/{name}")
    entry.size, entry.mode, entry.mtime = len(data), MODE, int(now.timestamp())
    archive.addfile(entry, io.BytesIO(data))


def _cluster_parts(target: Target) -> Iterator[Part]:
    yield "versions.json", lambda: _json(_versions(target))
    for name, (path, labels) in COLLECTIONS.items():
        yield f"cluster/{name}.json", partial(_cluster_part, target, name, path, labels)
    yield "doctor-cluster.json", lambda: _json(_findings(target))


def _cluster_part(target: Target, name: str, path: str, labels: str) -> str:
    return _json(_items(target, name, path, labels))


def _items(target: Target, name: str, path: str, labels: str) -> dict[str, Any]:
    async def asked(kube: Kube) -> list[dict[str, Any]]:
        return await collections.items(kube, path, **({"labelSelector": labels} if labels else {}))

    found = [item for item in target.ask(asked) if _is_ours(name, item)]
    for item in found:
        item.get("metadata", {}).pop("managedFields", None)
    return {"kind": "List", "items": found}


def _is_ours(name: str, item: dict[str, Any]) -> bool:
    """False for definitions, leases and events that do not concern Fairlead."""
    if name == "definitions":
        return bool((item.get("spec") or {}).get("group") == GROUP)
    if name == "leases":
        return str(item["metadata"]["name"]).startswith("fairlead")
    if name == "events":
        about = item.get("involvedObject") or item.get("regarding") or {}
        return str(about.get("apiVersion", "")).startswith(GROUP) or "fairlead" in json.dumps(item.get("source") or {})
    return True


def _versions(target: Target) -> dict[str, Any]:
    async def asked(kube: Kube) -> Any:
        return json.loads(await kube.get("version"))

    found: dict[str, Any] = {"fairlead": distribution.version(), "python": platform.python_version()}
    found["system"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    with contextlib.suppress(click.ClickException):  # reported by every other part
        found["apiServer"] = target.ask(asked)
    return found


def _findings(target: Target) -> dict[str, Any]:
    from fairlead_cli.doctor import examination
    from fairlead_cli.doctor.cluster import examine

    places = examine.Places(namespace=target.given_namespace)
    return examination.document("cluster", examination.run(examine.checks(target, places)))


def _http_parts(hub: str | None, messaging: str | None, edge: str | None) -> Iterator[Part]:
    asked = [("hub", hub, ("readyz", "metrics", "v1/nodes")), ("messaging", messaging, ("readyz", "metrics"))]
    for room, url, paths in [*asked, ("edge", edge, ("readyz", "metrics"))]:
        if url is None:
            continue
        for path in paths:
            name = f"{room}/{path.replace('/', '-')}{'.json' if path.startswith('v1') else '.txt'}"
            yield name, partial(_get, f"{url.rstrip('/')}/{path}")


def _get(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=SECONDS) as answer:
            content = answer.read(FILE_BYTES_MAX)
    except urllib.error.HTTPError as error:
        with error:
            content = f"HTTP {error.code}\n".encode() + error.read(FILE_BYTES_MAX)
    shown = content.decode(errors="replace")
    try:
        return _json(json.loads(shown))
    except (ValueError, RecursionError):
        return text(shown)


def _log_parts(logs: tuple[Path, ...]) -> Iterator[Part]:
    for number, path in enumerate(logs, 1):
        yield f"logs/{number}-{path.name}", partial(_log, path)


def _log(path: Path) -> str:
    return text(_end(path))


def _end(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - FILE_BYTES_MAX))
        return file.read(FILE_BYTES_MAX).decode(errors="replace")


def _json(value: Any) -> str:
    return json.dumps(document(value), indent=1) + "\n"


# ── redaction ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def document(value: Any, depth: int = 0) -> Any:
    """JSON data with possible secrets hidden."""
    if depth > NESTING_MAX:
        return HIDDEN
    if isinstance(value, Mapping):
        if str(value.get("kind")) == "Secret" and not value.keys().isdisjoint(("metadata", "data", "stringData")):
            return {"kind": "Secret", "metadata": document(value.get("metadata"), depth + 1), "data": HIDDEN}
        return {key: _entry(str(key), each, value, depth) for key, each in value.items() if key != _APPLIED}
    if isinstance(value, list):
        return [
            HIDDEN
            if isinstance(before, str) and _FLAG.fullmatch(before) and isinstance(each, str)
            else document(each, depth + 1)
            for before, each in zip((None, *value), value, strict=False)
        ]
    return text(value) if isinstance(value, str) else value


def _entry(key: str, value: Any, around: Mapping[str, Any], depth: int) -> Any:
    # A container's variable: {"name": "DB_PASSWORD", "value": "…"}
    named = key == "value" and _NAMES.search(str(around.get("name", ""))) is not None
    if named or (_NAMES.search(key) and key.lower() not in HARMLESS):
        if _is_scalar(value):
            return HIDDEN
        if isinstance(value, list):
            return [HIDDEN if _is_scalar(each) else document(each, depth + 1) for each in value]
    return document(value, depth + 1)


def _is_scalar(value: Any) -> bool:
    """True for a non-empty text or a number; booleans and empty values are not secrets."""
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def text(content: str) -> str:
    """Text with possible secrets hidden."""
    for form in _FORMS:
        content = form.sub(HIDDEN, content)
    content = _ADDRESS.sub(rf"\1{HIDDEN}@", content)
    for named in (_HEADER, _OPTION, _ASSIGNED):
        content = named.sub(rf"\1{HIDDEN}", content)
    return content
