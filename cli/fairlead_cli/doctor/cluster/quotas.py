"""Does a ResourceQuota stop what the hub or the chart needs to make?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from fairlead_cli.doctor.finding import Finding, ok, problem, warning

OURS: Final = ".fairlead.dev"
NEARLY: Final = Decimal("0.9")
_UNITS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def judge(quotas: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """Each resource of each quota that is used up, or nearly; ObjectSync counts are what the hub writes."""
    count, bad = 0, 0
    for quota in quotas:
        count += 1
        for found in _judge(quota):
            bad += 1
            yield found
    if not bad:
        yield ok("quotas", f"{count} ResourceQuotas, and none is used up" if count else "there are no ResourceQuotas")


def _judge(quota: Mapping[str, Any]) -> Iterator[Finding]:
    status = quota.get("status") or {}
    name = f"{quota['metadata'].get('namespace', '')}/{quota['metadata']['name']}"
    for resource, hard in sorted((status.get("hard") or {}).items()):
        used = (status.get("used") or {}).get(resource, "0")
        limit, taken = amount(hard), amount(used)
        if limit is None or taken is None or taken < limit * NEARLY:
            continue
        if not limit and not resource.endswith(OURS):
            continue  # a limit of nothing forbids a kind, such as LoadBalancers, and is meant
        text = f"ResourceQuota {name}: {used} of {hard} {resource} are used"
        namespace = quota["metadata"].get("namespace", "")
        remedy = f"raise it: kubectl -n {namespace} edit resourcequota {quota['metadata']['name']}"
        full = taken >= limit
        yield (problem if full else warning)(
            "quotas", f"{text}; {'nothing more' if full else 'little more'} fits", remedy
        )


def amount(quantity: Any) -> Decimal | None:
    """A quantity of Kubernetes: ``1500m``, ``2Gi``, ``10``; None when it is none."""
    text = str(quantity)
    number = text.rstrip("KMGTPEkinum")
    unit = text[len(number) :]
    try:
        if unit in _BINARY:
            return Decimal(number) * Decimal(1024 ** _BINARY[unit])
        return Decimal(number).scaleb(_UNITS[unit])
    except (InvalidOperation, KeyError):
        return None
