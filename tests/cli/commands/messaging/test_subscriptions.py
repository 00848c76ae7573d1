"""`fairlead topics subscriptions`: put, look, delete."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result
from tests.support.processes import wait_until

Run = Callable[..., Result]


def test_a_subscription_from_put_to_delete(run: Run) -> None:
    run("create", "t")
    policy = '{"minimum_delay": 60, "maximum_delay": 60, "retries_with_no_delay": 0}'
    assert run("subscriptions", "put", "t", "s", "http://127.0.0.1:9/", "--delivery", policy).exit_code == 0
    run("publish", "t", "a")
    wait_until("a retry", lambda: "attempt 2 in" in run("subscriptions", "list", "t").stdout, seconds=120)
    [listed] = json.loads(run("subscriptions", "list", "t", "-o", "json").stdout)
    assert (listed["name"], listed["delivered"], listed["attempts"]) == ("s", 0, 1)
    assert "its own policy: 6 retries" in run("subscriptions", "list", "t").stdout
    assert run("subscriptions", "delete", "t", "s").exit_code == 0
    assert run("subscriptions", "list", "t").stdout == ""
    assert run("subscriptions", "delete", "t", "s").exit_code == 1


def test_the_policy_of_the_topic(run: Run) -> None:
    """Given at its creation, shown, and counted where a subscription has none or must not have one."""
    policy = (
        '{"minimum_delay": 60, "maximum_delay": 60, "retries_with_no_delay": 1, "ignore_subscription_override": true}'
    )
    assert run("create", "t", "--delivery", policy).exit_code == 0
    assert json.loads(run("show", "t", "-o", "json").stdout)["properties"]["delivery"] == json.loads(policy)
    assert 'delivery: {"retries_with_no_delay": 1, "minimum_delay": 60' in run("show", "t").stdout
    own = '{"minimum_delay": 1, "maximum_delay": 2}'
    assert run("subscriptions", "put", "t", "s", "http://127.0.0.1:9/", "--delivery", own).exit_code == 0
    assert "the policy of its topic, or the default: 7 retries" in run("subscriptions", "list", "t").stdout
    assert run("update", "t", "--ttl", "60").exit_code == 0
    assert "its own policy: 10 retries, delays of 1 to 2 s" in run("subscriptions", "list", "t").stdout
    bad = run("update", "t", "--delivery", '{"minimum_delay": 9, "maximum_delay": 1, "jitter": "ful"}')
    assert bad.exit_code == 2
    assert "maximum_delay" in bad.stderr and "did you mean full" in bad.stderr
