"""`fairlead topics subscriptions`: put, look, delete."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result
from tests.support.processes import wait_until

Run = Callable[..., Result]


def test_a_subscription_from_put_to_delete(run: Run) -> None:
    """What is being retried is shown, with the reason."""
    run("create", "t")
    policy = '{"minimum_delay": 60, "maximum_delay": 60, "retries_with_no_delay": 0}'
    assert run("subscriptions", "put", "t", "s", "http://127.0.0.1:9/", "--delivery", policy).exit_code == 0
    run("publish", "t", "a")
    wait_until("a retry", lambda: "attempt 2 in" in run("subscriptions", "list", "t").stdout, seconds=30)
    [listed] = json.loads(run("subscriptions", "list", "t", "-o", "json").stdout)
    assert (listed["name"], listed["delivered"], listed["attempts"]) == ("s", 0, 1)
    assert run("subscriptions", "delete", "t", "s").exit_code == 0
    assert run("subscriptions", "list", "t").stdout == ""
    assert run("subscriptions", "delete", "t", "s").exit_code == 1


def test_a_bad_policy_is_a_usage_error(run: Run) -> None:
    """It names the key."""
    run("create", "t")
    bad = run("subscriptions", "put", "t", "s", "http://x/", "--delivery", '{"minimum_delay": -1}')
    assert bad.exit_code == 2
    assert "minimum_delay" in bad.stderr
    assert run("subscriptions", "put", "t", "s", "ftp://x/").exit_code == 1
