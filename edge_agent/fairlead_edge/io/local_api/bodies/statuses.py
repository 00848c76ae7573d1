"""Status that programs report of objects, as it is listed."""

from __future__ import annotations

from fairlead_edge.io.local_api.bodies.answer import Answer


class ReportedStatus(Answer, frozen=True, kw_only=True):
    """How far it got: ``state`` is waiting, written (the cluster has it) or refused, then with code and reason."""

    group: str
    plural: str
    namespace: str
    name: str
    uid: str
    state: str
    age_seconds: float
    code: str
    reason: str


class ReportedStatuses(Answer, frozen=True, kw_only=True):
    """What changed longest ago first."""

    statuses: list[ReportedStatus]
