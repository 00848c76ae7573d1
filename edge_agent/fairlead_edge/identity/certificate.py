"""The node's certificate: when the agent asks for a new one, and its state in the status and as metrics.

    welcomed(after) ─▶ due ─asked─▶ waiting ─┬─ issued(after) ─▶ due, much later
         ▲                                   ├─ refused ───────▶ due, after a pause that doubles
         └── session ended ──────────────────┘

The hub says when to ask; failures are retried with a growing pause.  Times are in seconds of a monotonic clock, because
the device's wall clock may be wrong.
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
"""For a certificate of 90 days, this leaves several hundred attempts in the last third of its life."""
BACKOFF: Final = Backoff(RETRY_SECONDS_MIN, RETRY_SECONDS_MAX)


class CertificateRenewal(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the renewal; each event returns the next state."""

    due: float | None = None
    """When to ask; None: the hub does not renew certificates, or no session is open."""
    asked: bool = False
    """A request is pending."""
    failures: int = 0
    """Consecutive failures, over all sessions."""
    code: str = ""
    reason: str = ""
    """Why the last attempt failed; empty after one that succeeded."""

    def welcomed(self, after: float | None, now: float) -> CertificateRenewal:
        """A session is open.  ``after``: seconds until the request; None: the hub does not renew."""
        pause = self.due if self.failures and self.due is not None else 0.0
        due = None if after is None else max(now + after, min(pause, now + RETRY_SECONDS_MAX))
        return msgspec.structs.replace(self, due=due, asked=False)

    def hastened(self, after: float, now: float) -> CertificateRenewal:
        """Another authority signs now: ask in ``after`` seconds at the latest.  A pending request or a pause stays."""
        if self.asked or self.failures:
            return self
        return msgspec.structs.replace(self, due=now + after if self.due is None else min(self.due, now + after))

    def asking(self) -> CertificateRenewal:
        """A request is sent."""
        return msgspec.structs.replace(self, asked=True)

    def issued(self, after: float | None, now: float) -> CertificateRenewal:
        """The new pair is on disk.  ``after``: in how many seconds to ask for the next one."""
        return CertificateRenewal(due=None if after is None else now + after)

    def failed(
        self, code: str, reason: str, now: float, draw: float, *, retry_after: float | None = None
    ) -> CertificateRenewal:
        """The renewal failed.  ``draw`` is from [0, 1); ``retry_after``: seconds the hub asks for."""
        pause = BACKOFF.pause(self.failures, draw, asked=retry_after)
        return CertificateRenewal(due=now + pause, failures=self.failures + 1, code=code, reason=reason)

    def ended(self) -> CertificateRenewal:
        """The session ended; a pending request is repeated in the next one."""
        return msgspec.structs.replace(self, asked=False, due=self.due if self.failures else None)

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the next request; None: none is due."""
        return None if self.due is None or self.asked else max(0.0, self.due - now)


class CertificateStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the certificate.  ``renewal`` is None if another program manages the files."""

    certificate: Certificate | None
    renewal: CertificateRenewal | None
    renewal_in_seconds: float | None
    """Until the next request; None: none is due, or one is pending."""
    distrust: str = ""
    """Why the clock is not trusted; empty: it is."""
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
            help="renewals, late renewals, rollbacks, authorities replaced and refused, failures by code",
            labels=("event",),
            samples={(event,): float(count) for event, count in identity.counters.items()},
        ),
        single("fairlead_edge_renewal_failures", "gauge", "renewals that failed since the last one", failures),
        single("fairlead_edge_clock_distrusted", "gauge", "1 while the clock is not trusted", bool(identity.distrust)),
    ]


def _state(renewal: CertificateRenewal | None) -> str:
    """``off``: another program renews the files, or the hub does not renew certificates."""
    if renewal is None:
        return "off"
    if renewal.asked:
        return "asked"
    if renewal.failures:
        return "failing"
    return "off" if renewal.due is None else "due"


def _text(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
