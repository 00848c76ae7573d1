"""A delivery policy on the command line: JSON, refused with everything that is wrong before anything is asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.text import counts

if TYPE_CHECKING:
    from fairlead_wire.delivery_policy import DeliveryPolicy


class Policy(click.ParamType["DeliveryPolicy"]):
    """The JSON of a delivery policy."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> DeliveryPolicy:
        from fairlead_wire import delivery_policy
        from fairlead_wire.validation.mistakes import Wrong

        if isinstance(value, delivery_policy.DeliveryPolicy):
            return value
        try:
            return delivery_policy.parse(json.loads(value))
        except Wrong as error:
            self.fail(error.sentence, param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        except RecursionError:
            self.fail("nested too deeply", param, ctx)


def shown(policy: DeliveryPolicy) -> str:
    """In a few words: how often, and between which delays."""
    from fairlead_wire import delivery_policy

    count = delivery_policy.retries(policy)
    if not count:
        return "no retries"
    retries = counts.of(count, "retry", "retries")
    return f"{retries}, delays of {policy.minimum_delay:g} to {policy.maximum_delay:g} s"
