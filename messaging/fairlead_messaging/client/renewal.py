"""Keeping a transaction alive, as a script: renew it three times within its timeout, until it ends or is lost.

    wait a third ─→ renew ─answered→ wait a third ─→ …
                      ├─no answer→ again soon, until the time it had is over → lost
                      └─"it is over"→ lost: why, in the service's words

Two renewals in a row may fail, as in a restart of the service, before time is short.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from fairlead_messaging.api import error_codes
from fairlead_messaging.client import requests
from fairlead_messaging.client.errors import Denied, TransactionLost, TransactionOver
from fairlead_messaging.client.request import ClientRequest
from fairlead_messaging.client.script import Pause
from fairlead_wire.errors import FairleadError

RENEWALS = 3
"""Within one timeout."""
AGAIN = 10
"""After a failure, the part of its timeout that is waited for."""


def keep(
    pointer: int, timeout_seconds: float, steady: Callable[[], float]
) -> Generator[ClientRequest[Any] | Pause, Any, TransactionLost | None]:
    """How it was lost; None when the service knows no renewals, and it lives as long as it asked for at its start.

    ``steady`` is a clock in seconds that is never set.
    """
    renewed_at, pause = steady(), timeout_seconds / RENEWALS
    while True:
        yield Pause(pause)
        asked_at = steady()
        try:
            yield requests.renew_transaction(pointer, timeout_seconds)
        except TransactionOver as over:
            return TransactionLost(
                f"transaction {pointer} was lost: {over.reason or over}",
                code=over.code, status=over.status, facts=over.facts,
            )  # fmt: skip
        except Denied:
            return None
        except FairleadError as failed:
            left = renewed_at + timeout_seconds - steady()
            if left <= 0:
                return TransactionLost(
                    f"transaction {pointer} was lost: no renewal was answered for {timeout_seconds:g} s: {failed}",
                    code=error_codes.NOT_IN_PROGRESS, facts={"state": "unknown", "ended_by": "timeout"},
                )  # fmt: skip
            pause = min(left, timeout_seconds / AGAIN)
        else:
            renewed_at, pause = asked_at, timeout_seconds / RENEWALS
