"""Whose a transaction is."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import Forbidden
from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server import access
from fairlead_messaging.server.access import NOT_KNOWN, UNRESTRICTED, AccessEntry, Caller, Grants
from fairlead_messaging.server.transactions.transaction import Touched

IN_A = [Touched(namespace="default", name="a", generation=1)]


def of(name: str, verbs: str, *topics: str) -> Caller:
    who = access.parse_subject(name)
    entry = AccessEntry(who, frozenset(map(Verb, verbs.split())), tuple(map(access.parse_glob, topics)))
    return Caller(name, who.owner, Grants((entry,)))


def test_only_the_subject_that_began_it_may_use_a_transaction() -> None:
    """Another that may publish to the very same topic could commit half of it, or block its end."""
    app, other = of("app", "publish", "*"), of("other", "publish administer", "*")
    access.check_owner(app, 7, app.owner)
    with pytest.raises(Forbidden, match="other did not begin transaction 7"):
        access.check_owner(other, 7, app.owner)


def test_an_administrator_of_all_it_touched_may_end_it() -> None:
    """Of some of it is not enough: ending it hides the rest, too."""
    access.check_may_end(of("ops", "administer", "default/a"), 7, "certificate:app", IN_A)
    both = [*IN_A, Touched(namespace="default", name="b", generation=1)]
    with pytest.raises(Forbidden, match="administer every topic"):
        access.check_may_end(of("ops", "administer", "default/a"), 7, "certificate:app", both)


def test_one_that_touched_nothing_is_ended_by_its_owner_or_who_administers_everything() -> None:
    """Else all who administer anything could end the transactions of all others as they begin."""
    access.check_may_end(of("ops", "administer", "*"), 7, "certificate:app", [])
    with pytest.raises(Forbidden):
        access.check_may_end(of("ops", "administer", "mine/*"), 7, "certificate:app", [])


def test_owners_of_different_kinds_are_different() -> None:
    """A certificate that is called like an account is not that account."""
    account = of("serviceaccount:shop:till", "publish", "*")
    assert not account.owns("certificate:serviceaccount:shop:till")
    assert account.owns("serviceaccount:shop:till")


def test_records_without_an_owner_and_services_without_a_table_know_no_owners() -> None:
    """Those of an earlier version go on after the upgrade."""
    assert of("app", "publish", "*").owns("")
    access.check_owner(UNRESTRICTED, 7, "certificate:app")
    access.check_may_end(UNRESTRICTED, 7, "certificate:app", IN_A)


def test_of_whom_nothing_is_known_nothing_is_granted() -> None:
    """The fail-safe of the HTTP handlers."""
    assert not NOT_KNOWN.may(Verb.CONSUME, "a", "b") and not NOT_KNOWN.sees("a", "b")
    assert not NOT_KNOWN.owns("certificate:app")
