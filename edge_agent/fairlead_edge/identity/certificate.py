"""The node's certificate: when the edge asks for a new one, and what it says of its own in the status and as metrics.

    welcomed(after) ─▶ due ─asked─▶ waiting ─┬─ issued(after) ─▶ due, much later
         ▲                                   ├─ refused ───────▶ due, after a pause that doubles
         └── session ended ──────────────────┘

The hub says after how long to ask; what fails is tried again, ever less often.  Times are seconds of a monotonic clock:
the device's wall clock may show what it likes.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_edge.metrics import Family, single
from fairlead_wire.backoff import Backoff
from fairlead_wire.identity.certificate import Certificate

RETRY_SECONDS_MIN: Final = 5.0
RETRY_SECONDS_MAX: Final = 3600.0
"""With 90 days a third of a certificate's life holds some hundred attempts."""
BACKOFF: Final = Backoff(RETRY_SECONDS_MIN, RETRY_SECONDS_MAX)


class CertificateRenewal(msgspec.Struct, frozen=True, kw_only=True):
    """One moment; each event gives the next one."""

    due: float | None = None
    """When to ask; None: the hub renews nothing, or no session is open."""
    asked: bool = False
    """A request is pending."""
    failures: int = 0
    """In a row, over sessions."""
    code: str = ""
    reason: str = ""
    """Why the last attempt failed; empty after one that succeeded."""

    def welcomed(self, after: float | None, now: float) -> CertificateRenewal:
        """A session is open; ``after``: seconds the hub gave, None: it renews nothing.  A pause continues."""
        pause = self.due if self.failures and self.due is not None else 0.0
        due = None if after is None else max(now + after, min(pause, now + RETRY_SECONDS_MAX))
        return msgspec.structs.replace(self, due=due, asked=False)

    def hastened(self, after: float, now: float) -> CertificateRenewal:
        """Another authority signs now: ask after so long at the latest.  What waits or was refused goes on as it is."""
        if self.asked or self.failures:
            return self
        return msgspec.structs.replace(self, due=now + after if self.due is None else min(self.due, now + after))

    def asking(self) -> CertificateRenewal:
        """A request is made and leaves."""
        return msgspec.structs.replace(self, asked=True)

    def issued(self, after: float | None, now: float) -> CertificateRenewal:
        """The new pair is on disk."""
        return CertificateRenewal(due=None if after is None else now + after)

    def failed(
        self, code: str, reason: str, now: float, draw: float, *, retry_after: float | None = None
    ) -> CertificateRenewal:
        """The renewal failed.  ``draw`` is from [0, 1); ``retry_after``: seconds the hub asks for."""
        pause = BACKOFF.pause(self.failures, draw, asked=retry_after)
        return CertificateRenewal(due=now + pause, failures=self.failures + 1, code=code, reason=reason)

    def ended(self) -> CertificateRenewal:
        """The session ended; what was under way is asked for again in the next one."""
        return msgspec.structs.replace(self, asked=False, due=self.due if self.failures else None)

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the next request; None: none is due."""
        return None if self.due is None or self.asked else max(0.0, self.due - now)


class CertificateStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One moment.  ``renewal`` is None where the files are not the agent's own to renew."""

    certificate: Certificate | None
    renewal: CertificateRenewal | None
    renewal_in_seconds: float | None
    """Until the next request; None: none is due, or one is pending."""
    distrust: str = ""
    """Why the clock is not believed."""
    authorities: str = ""
    """Digest of the trusted authorities."""
    counters: Mapping[str, int] = {}


def body(identity: CertificateStatus) -> dict[str, Any]:
    """For ``GET /v1/status``."""
    own, renewal = identity.certificate, identity.renewal
    return {
        "serial": own.serial if own is not None else "",
        "issuer": own.issuer if own is not None else "",
        "expires": _text(own.not_after) if own is not None else None,
        "renewal": {
            "state": _state(renewal),
            "inSeconds": None if identity.renewal_in_seconds is None else round(identity.renewal_in_seconds, 1),
            "failures": renewal.failures if renewal is not None else 0,
            "code": renewal.code if renewal is not None else "",
            "reason": renewal.reason if renewal is not None else "",
        },
        "authorities": identity.authorities,
        "clockDistrusted": identity.distrust,
    }


def families(identity: CertificateStatus) -> list[Family]:
    """Metrics."""
    failures = identity.renewal.failures if identity.renewal is not None else 0
    return [
        Family(
            name="fairlead_edge_identity_events_total",
            kind="counter",
            help="certificates renewed, also late, taken back, authorities replaced and refused, what failed by code",
            labels=("event",),
            samples={(event,): float(count) for event, count in identity.counters.items()},
        ),
        single("fairlead_edge_renewal_failures", "gauge", "renewals that failed since the last one", failures),
        single("fairlead_edge_clock_distrusted", "gauge", "1 while the clock is not believed", bool(identity.distrust)),
    ]


def _state(renewal: CertificateRenewal | None) -> str:
    """``off``: others renew the files, or this hub renews none."""
    if renewal is None:
        return "off"
    if renewal.asked:
        return "asked"
    if renewal.failures:
        return "failing"
    return "off" if renewal.due is None else "due"


def _text(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
