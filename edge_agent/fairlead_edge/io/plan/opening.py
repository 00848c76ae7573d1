"""The data plan that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path

from fairlead_edge.io.plan.data_plan import DataPlan
from fairlead_edge.outbox.plan import settings as plan_settings
from fairlead_edge.settings import EdgeSettings


def open_plan(settings: EdgeSettings, folder: Path, *, clock: Callable[[], float]) -> DataPlan:
    """Its day's count is kept in ``folder``; ``clock`` is the store's."""
    return DataPlan(
        folder,
        clock=clock,
        windows=plan_settings.windows_by_priority(settings.windows),
        bytes_per_day=settings.link.bytes_per_day,
        bytes_per_second=settings.link.bytes_per_second,
        zone=plan_settings.zone(settings.link.timezone) or UTC,
    )
