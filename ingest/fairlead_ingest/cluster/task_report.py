"""What tasks found where they ran, before the first batch: enough to say in one sentence why a batch would fail there.

A report is small and plain, since it comes back through Spark as one row of text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fairlead_ingest import errors


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
