"""When a node is asked to renew its certificate: seconds from now, drawn by the hub, so that no device clock counts.

    issued ────────────── 2/3 ± 5 % ──drawn──▶ renewal ─────────── expires
                              └─ another authority signs now: any time of the coming day

Seven nodes or seven thousand, made in one hour or connected in one minute: their renewals are spread.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 2 / 3
"""Of a certificate's life."""
SPREAD: Final = 0.05
"""Of its life, before and after."""
OVERDUE_SECONDS: Final = 60.0
"""Renewals whose time has come already are spread over so much, or over a quarter of what is left."""
ROTATION_SECONDS: Final = 86_400.0
"""Within so much every connected node has a certificate of the authority that signs now."""


def renew_after(*, issued: float, expires: float, now: float, draw: float, rotating: bool = False) -> float:
    """Seconds until the edge should ask.  Times are Unix times of the hub; ``draw`` is from [0, 1).

    ``rotating``: the certificate is of an authority that does not sign any more.
    """
    life, left = max(0.0, expires - issued), max(0.0, expires - now)
    due = issued + life * (SHARE + SPREAD * (2.0 * draw - 1.0)) - now
    if rotating:
        due = min(due, draw * min(ROTATION_SECONDS, left * SHARE))
    return max(due, draw * min(OVERDUE_SECONDS, left / 4)) if due <= OVERDUE_SECONDS else due
