"""ResourceQuotas: used up, nearly, and quantities of every form."""

from __future__ import annotations

from decimal import Decimal

import pytest

from fairlead_cli.doctor.cluster.installation import amount, judge_quotas


@pytest.mark.parametrize(
    ("text", "value"), [("10", "10"), ("1500m", "1.5"), ("2Ki", "2048"), ("1G", "1e9"), ("x", None), ("", None)]
)
def test_quantities(text: str, value: str | None) -> None:
    """As Kubernetes writes them."""
    assert amount(text) == (None if value is None else Decimal(value))


def test_what_is_used_up() -> None:
    """All of it is a problem, nine tenths a warning."""
    status = {
        "hard": {"pods": "10", "memory": "1Gi", "cpu": "4"},
        "used": {"pods": "10", "memory": "950Mi", "cpu": "1"},
    }
    found = list(judge_quotas([{"metadata": {"namespace": "shop", "name": "q"}, "status": status}]))
    assert [(each.level, each.message.split(": ")[1]) for each in found] == [
        ("warning", "950Mi of 1Gi memory are used; little more fits"),
        ("problem", "10 of 10 pods are used; nothing more fits"),
    ]
    assert [each.level for each in judge_quotas([])] == ["ok"]


def test_what_is_forbidden_is_not_used_up() -> None:
    """Shared clusters set limits of 0, for example for LoadBalancers."""
    status = {"hard": {"services.loadbalancers": "0", "pods": "10"}, "used": {"services.loadbalancers": "0"}}
    assert [each.level for each in judge_quotas([{"metadata": {"name": "q"}, "status": status}])] == ["ok"]
    ours = {"hard": {"count/objectsyncs.fairlead.dev": "0"}, "used": {"count/objectsyncs.fairlead.dev": "0"}}
    assert [each.level for each in judge_quotas([{"metadata": {"name": "q"}, "status": ours}])] == ["problem"]
