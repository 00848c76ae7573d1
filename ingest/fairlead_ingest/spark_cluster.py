"""Spark's addresses, and the judgement of the reports that tasks make before the first batch.

Addresses are ``sc://host:port/;key=value`` of a Connect server (without secrets) and ``spark://`` of masters. A task's
report returns through Spark as one row of text; it says why batches would fail on its executor.
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
    """Return ``remote`` if it is valid. Raises ``ValueError``."""
    address(remote)
    for each in filter(None, urlsplit(remote).path.lstrip("/").split(";")):
        key, equals, _ = each.partition("=")
        if key == "token":
            raise ValueError(f"must not contain a token; set {TOKEN_VARIABLE}")
        if not equals or key not in _ALLOWED:
            found = f"not {key!r}" if equals else "but a key is missing"  # a value may be a password
            raise ValueError(f"the address may be followed by ;key=value with {', '.join(sorted(_ALLOWED))}, {found}")
    return remote


def address(remote: str) -> tuple[str, int]:
    """The host and port of a Connect server. Raises ``ValueError``."""
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must be sc://host:port")
    try:
        return parts.hostname, PORT_DEFAULT if parts.port is None else parts.port
    except ValueError:
        raise ValueError("must be sc://host:port, with a port below 65536") from None


def standalone_masters(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of ``spark://a:7077,b:7077``; empty for other masters, and for addresses only Spark knows."""
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
    """A problem that a task found; ``code`` is one of ``errors``."""

    code: str
    sentence: str


class TaskReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The report of one task; ``seen`` says for each folder whether it found the driver's marker there."""

    executor: str
    host: str
    version: str
    seen: dict[str, bool] = {}
    findings: list[TaskFinding] = []


def unfit(reports: Iterable[TaskReport], version: str, shared: Mapping[str, str]) -> errors.Stop | None:
    """Why the job cannot run on these executors, or None.

    ``shared`` are the folders that all must see, with descriptions; ``version`` is the driver's.
    """
    for report in sorted(reports, key=lambda each: each.executor):
        where = f"executor {report.executor} on {report.host}"
        if report.version != version:
            sentence = f"{where} has fairlead {report.version}, but this program is {version}: install that there"
            return errors.Stop(errors.WORKER_UNFIT, sentence)
        for folder, what in shared.items():
            if not report.seen.get(folder, True):
                remedy = "use a folder that all machines share, or an object store (s3://bucket/path)"
                return errors.Stop(errors.WORKER_UNFIT, f"{where} cannot see {what} {folder} on this machine: {remedy}")
        for finding in report.findings:
            if finding.code not in errors.TEMPORARY:
                return errors.Stop(finding.code, f"{where}: {finding.sentence}")
    return None


def not_shared(reports: Iterable[TaskReport], folder: str) -> list[str]:
    """The hosts that do not see ``folder``."""
    return sorted({report.host for report in reports if not report.seen.get(folder, True)})


def passing(reports: Iterable[TaskReport]) -> list[str]:
    """The temporary problems, as sentences."""
    return sorted(
        f"executor {report.executor} on {report.host}: {finding.sentence}"
        for report in reports
        for finding in report.findings
        if finding.code in errors.TEMPORARY
    )
