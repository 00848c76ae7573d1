"""A delivery policy as it is sent."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_wire.delivery_policy import DeliveryPolicy


def given(policy: DeliveryPolicy) -> dict[str, Any]:
    """As a person would give it: what is not the default."""
    default = msgspec.structs.asdict(DeliveryPolicy())
    return {name: value for name, value in msgspec.structs.asdict(policy).items() if value != default[name]}
