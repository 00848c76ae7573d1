"""What the table grants."""

from __future__ import annotations

from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server import access
from fairlead_messaging.server.access import AccessEntry, AccessTable, Grants, Identity, Subject


def entry(name: str, verbs: str, *topics: str) -> AccessEntry:
    return AccessEntry(
        access.parse_subject(name), frozenset(map(Verb, verbs.split())), tuple(map(access.parse_glob, topics))
    )


def grants(table: AccessTable, *names: str) -> Grants:
    return table.of(Identity(tuple(map(access.parse_subject, names))))


def test_what_no_entry_grants_is_denied() -> None:
    """Neither another verb, nor another topic, nor another subject."""
    table = AccessTable([entry("app", "publish", "default/a")])
    assert grants(table, "app").may(Verb.PUBLISH, "default", "a")
    assert not grants(table, "app").may(Verb.CONSUME, "default", "a")
    assert not grants(table, "app").may(Verb.PUBLISH, "default", "b")
    assert not grants(table, "App")
    assert not grants(table)


def test_entries_of_one_subject_add_up() -> None:
    """What one entry takes away another may grant: the hub has all but `system/*`, and `system/events`."""
    hub = grants(
        AccessTable([entry("hub", "publish", "*", "!system/*"), entry("hub", "publish", "system/events")]), "hub"
    )
    assert hub.may(Verb.PUBLISH, "default", "telemetry")
    assert hub.may(Verb.PUBLISH, "system", "events")
    assert not hub.may(Verb.PUBLISH, "system", "accounts")


def test_the_order_of_patterns_does_not_matter() -> None:
    """A topic taken away is taken away."""
    for topics in (("!a/b", "a/*"), ("a/*", "!a/b")):
        assert not grants(AccessTable([entry("app", "consume", *topics)]), "app").may(Verb.CONSUME, "a", "b")


def test_to_administer_is_to_create_and_not_the_other_way_round() -> None:
    """The hub makes topics and must not be able to delete them."""
    assert grants(AccessTable([entry("a", "administer", "*")]), "a").may(Verb.CREATE, "a", "b")
    assert not grants(AccessTable([entry("a", "create", "*")]), "a").may(Verb.ADMINISTER, "a", "b")


def test_two_names_of_one_certificate_have_what_both_are_granted() -> None:
    """While an installation goes from names to URIs."""
    table = AccessTable([entry("app", "publish", "a/b"), entry("spiffe://corp/app", "consume", "a/b")])
    both = grants(table, "app", "spiffe://corp/app")
    assert both.may(Verb.PUBLISH, "a", "b") and both.may(Verb.CONSUME, "a", "b")


def test_an_identity_that_is_refused_has_nothing() -> None:
    """Whatever the table says of its names."""
    table = AccessTable([entry("app", "publish", "*")])
    assert not table.of(Identity((Subject("certificate", "app"),), refused="a node"))


def test_any_verb_is_enough_to_know_of_a_topic() -> None:
    """And none of them is not."""
    app = grants(AccessTable([entry("app", "create", "a/*")]), "app")
    assert app.sees("a", "b") and not app.sees("b", "b")


def test_every_topic_is_more_than_every_namespace_but_one() -> None:
    """What a transaction without topics asks for."""
    assert grants(AccessTable([entry("a", "administer", "*/*")]), "a").may_everywhere(Verb.ADMINISTER)
    assert not grants(AccessTable([entry("a", "administer", "*", "!b/*")]), "a").may_everywhere(Verb.ADMINISTER)
