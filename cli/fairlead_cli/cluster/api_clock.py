"""The time by the API server's clock: that of the machine where a person types may be anything."""

from __future__ import annotations

import contextlib
import datetime
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

APART_SECONDS = 30.0
"""More between the two clocks is worth a word."""


async def asked(kube: Kube) -> datetime.datetime:
    """Now, where nothing was asked yet.  Raises ``ApiUnavailable``."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    with contextlib.suppress(ApiRefused):  # who may not read it gets the time all the same
        await kube.get("version")
    return now(kube)


def now(kube: Kube) -> datetime.datetime:
    """By the last answer, and the time since."""
    said, at = kube.date
    try:
        return parsedate_to_datetime(said) + datetime.timedelta(seconds=time.time() - at)
    except (ValueError, TypeError, OverflowError):
        return datetime.datetime.now(datetime.UTC)


def note(kube: Kube) -> str:
    """Empty where both agree."""
    apart = abs((now(kube) - datetime.datetime.now(datetime.UTC)).total_seconds())
    said = f"this machine's clock is {apart:.0f} s off the API server's, whose time was taken"
    return said if apart > APART_SECONDS else ""
