"""What the agent says of its own certificate: in ``GET /v1/status`` and as metrics."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead_edge.identity.renewal import CertificateRenewal
from fairlead_edge.metrics import Family, single
from fairlead_wire.identity.certificate import Certificate


class CertificateStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One moment.  ``renewal`` is None where the files are not the agent's own to renew."""

    certificate: Certificate | None
    renewal: CertificateRenewal | None
    renewal_in_seconds: float | None
    """Until the next request; None: none is due, or its answer is waited for."""
    distrust: str = ""
    """Why the clock is not believed."""
    authorities: str = ""
    """Which are believed: their digest."""
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
