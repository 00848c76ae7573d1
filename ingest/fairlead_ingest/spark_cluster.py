"""Addresses of Spark: ``sc://host:port/;key=value`` of a Connect server (no secret in it), ``spark://`` of masters; and
what tasks found where they ran before the first batch, enough to say in one sentence why a batch would fail there.

A report of tasks is small and plain, since it comes back through Spark as one row of text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from fairlead_ingest import errors

PORT_DEFAULT: Final = 15002
STANDALONE: Final = "spark://"
KUBERNETES: Final = "k8s://"
TOKEN_VARIABLE: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_ALLOWED: Final = frozenset({"use_ssl", "user_id", "user_agent", "grpc_max_message_size"})


def check(remote: str) -> str:
    """``remote`` itself. Raises ``ValueError`` with what is wrong."""
    address(remote)
    for each in filter(None, urlsplit(remote).path.lstrip("/").split(";")):
        key, equals, _ = each.partition("=")
        if key == "token":
            raise ValueError(f"a token is no part of it, give it in {TOKEN_VARIABLE}")
        if not equals or key not in _ALLOWED:
            found = f"not {key!r}" if equals else "a key is missing"  # a value may be a password
            raise ValueError(f"after the address may come ;key=value with {', '.join(sorted(_ALLOWED))}, {found}")
    return remote


def address(remote: str) -> tuple[str, int]:
    """Host and port. Raises ``ValueError``."""
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must be sc://host:port")
    try:
        return parts.hostname, PORT_DEFAULT if parts.port is None else parts.port
    except ValueError:
        raise ValueError("must be sc://host:port, with a port below 65536") from None


def standalone_masters(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of ``spark://a:7077,b:7077``; none for another kind of master, or one that Spark has to judge."""
    if not master.startswith(STANDALONE):
        return []
    found = []
    for each in master.removeprefix(STANDALONE).split(","):
        try:
            parts = urlsplit(STANDALONE + each)
            host, port = parts.hostname, parts.port
        except ValueError:
            return []
        if not host or port is None:
            return []
        found.append((host, port))
    return found


class TaskFinding(msgspec.Struct, frozen=True):
    """Something that is not as it must be; ``code`` is one of ``errors``."""

    code: str
    sentence: str


class TaskReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one task; ``seen``: by the folders it was asked for, whether it sees in them what the driver put there."""

    executor: str
    host: str
    version: str
    seen: dict[str, bool] = {}
    findings: list[TaskFinding] = []


def unfit(reports: Iterable[TaskReport], version: str, shared: Mapping[str, str]) -> errors.Stop | None:
    """Why the job cannot run on these executors; ``shared``: folders that all must see, each with what it is.

    ``version`` is the driver's own.
    """
    for report in sorted(reports, key=lambda each: each.executor):
        where = f"executor {report.executor} on {report.host}"
        if report.version != version:
            sentence = f"{where} has fairlead {report.version}, this program is {version}: install the same there"
            return errors.Stop(errors.WORKER_UNFIT, sentence)
        for folder, what in shared.items():
            if not report.seen.get(folder, True):
                remedy = "it must be one folder that all machines share, or lie in an object store (s3://bucket/path)"
                return errors.Stop(
                    errors.WORKER_UNFIT, f"{where} does not see {what} {folder} of this machine: {remedy}"
                )
        for finding in report.findings:
            if finding.code not in errors.TEMPORARY:
                return errors.Stop(finding.code, f"{where}: {finding.sentence}")
    return None


def not_shared(reports: Iterable[TaskReport], folder: str) -> list[str]:
    """Hosts that do not see ``folder``."""
    return sorted({report.host for report in reports if not report.seen.get(folder, True)})


def passing(reports: Iterable[TaskReport]) -> list[str]:
    """What waiting may heal, as sentences."""
    return sorted(
        f"executor {report.executor} on {report.host}: {finding.sentence}"
        for report in reports
        for finding in report.findings
        if finding.code in errors.TEMPORARY
    )
