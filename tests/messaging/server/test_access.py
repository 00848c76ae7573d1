"""Which topics a pattern is about."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.api.errors import Forbidden
from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server import access
from fairlead_messaging.server.access import (
    AWAY_SECONDS,
    FRESH_SECONDS,
    UNIDENTIFIED,
    UNRESTRICTED,
    AccessEntry,
    AccessTable,
    Caller,
    Grants,
    Identity,
    Review,
    ReviewCache,
    Subject,
)
from fairlead_messaging.server.transactions.transaction import Touched

LETTERS = st.text("ab*", max_size=8)


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("default/orders", "default/orders", True),
        ("default/orders", "default/Orders", False),
        ("default/*", "default/orders", True),
        ("default/*", "default2/orders", False),
        ("*/orders-*", "shop/orders-7", True),
        ("*/orders-*", "shop/order", False),
        ("*", "system/events", True),
        ("*/*", "system/events", True),
        ("a*/b", "a/b", True),
        ("default/a*b*c", "default/abc", True),
        ("default/a*b*c", "default/acb", False),
        ("default/ab*ba", "default/aba", False),
    ],
)
def test_a_star_is_any_text_of_one_part(pattern: str, topic: str, expected: bool) -> None:
    namespace, _, name = topic.partition("/")
    assert access.parse_glob(pattern).matches(namespace, name) is expected


def test_no_part_reaches_over_the_slash() -> None:
    """A name that holds a slash (encoded in a path) matches by its own half alone."""
    assert not access.parse_glob("default/x").matches("default/x", "")
    assert not access.parse_glob("default/x").matches("", "default/x")
    assert not access.parse_glob("a/b").matches("a/b/a", "b")


@given(LETTERS, st.text("ab", max_size=12))
def test_it_matches_as_the_regular_expression_would(pattern: str, text: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert access.part_matches(pattern, text) is expected


def test_many_stars_cost_no_more_than_the_name_is_long() -> None:
    assert not access.part_matches("*a" * 100 + "*b", "a" * 100_000)


@pytest.mark.parametrize("text", ["", "default", "/x", "default/", "a/b/c", "a b/c", "a/../b", "!", "!!a/b", "a/b\n"])
def test_what_is_no_pattern_is_refused_with_what_would_be_one(text: str) -> None:
    with pytest.raises(ValueError, match="namespace/name"):
        access.parse_glob(text)


# --- Whose request it is.


def certificate(common: str | None, *alternatives: tuple[str, str]) -> dict[str, Any]:
    """As ``getpeercert()`` has it."""
    return {"subject": ((("commonName", common),),) if common is not None else (), "subjectAltName": alternatives}


@pytest.mark.parametrize(
    "text",
    ["", " hub", "hub\n", "a" * 254, "serviceaccount:shop", "serviceaccount:Shop:till", "serviceaccount:a:b:c",
     "*", "shop-*", "spiffe://corp", "spiffe://Corp/x", "spiffe://corp/x y", "spiffe://corp/" + "x" * 3000],
)  # fmt: skip
def test_what_is_no_subject_is_refused(text: str) -> None:
    """A subject that matches nothing by a slip would be noticed late."""
    with pytest.raises(ValueError, match="must be"):
        access.parse_subject(text)


def test_no_entry_can_be_about_a_node() -> None:
    """What a node may publish stands in its EdgeRoutes, which the hub knows."""
    with pytest.raises(ValueError, match="through the hub"):
        access.parse_subject("spiffe://fairlead/node/shop-17")


TILL_URI, BILLING_URI = ("URI", "spiffe://corp/till"), ("URI", "spiffe://corp/billing")


@pytest.mark.parametrize(
    ("shown", "subjects"),
    [
        # A common name is a name whatever it reads like: an authority that signs any gives out no accounts by it.
        (certificate("serviceaccount:shop:till"), {Subject("certificate", "serviceaccount:shop:till")}),
        (certificate("spiffe://corp/billing"), {Subject("certificate", "spiffe://corp/billing")}),
        # Without one the first DNS name counts.
        (certificate(None, ("DNS", "a.example"), ("DNS", "b.example")), {Subject("certificate", "a.example")}),
        (certificate(None), set()),
        (certificate(""), set()),
        # SPIFFE allows exactly one URI; nothing says which of two is meant.
        (certificate("till", TILL_URI), {Subject("certificate", "till"), Subject("spiffe", "spiffe://corp/till")}),
        (certificate("till", TILL_URI, BILLING_URI), {Subject("certificate", "till")}),
    ],
)
def test_names_in_a_certificate(shown: dict[str, Any], subjects: set[Subject]) -> None:
    found = access.identity_of_certificate(shown)
    assert set(found.subjects) == subjects and len(found.subjects) == len(subjects)
    assert subjects or "without a name" in str(found)


@pytest.mark.parametrize(
    "uris",
    [("spiffe://fairlead/node/fairlead-hub",), ("spiffe://corp/hub", "SPIFFE://fairlead/NODE/shop-17"),
     ("spiffe:///node/x",)],
)  # fmt: skip
def test_a_nodes_certificate_is_refused_whatever_else_it_says(uris: tuple[str, ...]) -> None:
    """A node may be called as the hub is, where one authority signs both."""
    found = access.identity_of_certificate(certificate("fairlead-hub", *(("URI", uri) for uri in uris)))
    assert found.refused
    assert Subject("certificate", "fairlead-hub") not in found.subjects


def test_users_that_are_no_service_account_have_no_name_here() -> None:
    assert access.account_of_user("system:serviceaccount:shop:till") == Subject("serviceaccount", "shop:till")
    for user in ("admin", "system:serviceaccount:", "system:serviceaccount:shop", "system:node:x", "shop:till", ""):
        assert access.account_of_user(user) is None


# --- What the table grants.


def entry(name: str, verbs: str, *topics: str) -> AccessEntry:
    return AccessEntry(
        access.parse_subject(name), frozenset(map(Verb, verbs.split())), tuple(map(access.parse_glob, topics))
    )


def grants(entries: list[AccessEntry], *names: str) -> Grants:
    return AccessTable(entries).of(Identity(tuple(map(access.parse_subject, names))))


APP = [entry("app", "publish", "default/a")]
HUB = [entry("hub", "publish", "*", "!system/*"), entry("hub", "publish", "system/events")]
TWO_NAMES = [entry("app", "publish", "a/b"), entry("spiffe://corp/app", "consume", "a/b")]


@pytest.mark.parametrize(
    ("found", "verb", "topic", "granted"),
    [
        (grants(APP, "app"), Verb.PUBLISH, "default/a", True),
        (grants(APP, "app"), Verb.CONSUME, "default/a", False),
        (grants(APP, "app"), Verb.PUBLISH, "default/b", False),
        (grants(APP, "App"), Verb.PUBLISH, "default/a", False),
        (grants(APP), Verb.PUBLISH, "default/a", False),
        # What one entry takes away another may grant.
        (grants(HUB, "hub"), Verb.PUBLISH, "default/telemetry", True),
        (grants(HUB, "hub"), Verb.PUBLISH, "system/events", True),
        (grants(HUB, "hub"), Verb.PUBLISH, "system/accounts", False),
        # The order of patterns does not matter.
        (grants([entry("app", "consume", "!a/b", "a/*")], "app"), Verb.CONSUME, "a/b", False),
        (grants([entry("app", "consume", "a/*", "!a/b")], "app"), Verb.CONSUME, "a/b", False),
        # Who administers may create, not the other way round.
        (grants([entry("a", "administer", "*")], "a"), Verb.CREATE, "a/b", True),
        (grants([entry("a", "create", "*")], "a"), Verb.ADMINISTER, "a/b", False),
        # Both names of one certificate count, while an installation moves from names to URIs.
        (grants(TWO_NAMES, "app", "spiffe://corp/app"), Verb.PUBLISH, "a/b", True),
        (grants(TWO_NAMES, "app", "spiffe://corp/app"), Verb.CONSUME, "a/b", True),
    ],
)
def test_what_the_table_grants(found: Grants, verb: Verb, topic: str, granted: bool) -> None:
    assert found.may(verb, *topic.split("/")) is granted


def test_who_is_granted_nothing_is_falsy() -> None:
    assert grants(APP, "app") and not grants(APP, "App") and not grants(APP)
    assert not AccessTable(APP).of(Identity((Subject("certificate", "app"),), refused="a node"))


def test_any_verb_is_enough_to_know_of_a_topic() -> None:
    app = grants([entry("app", "create", "a/*")], "app")
    assert app.sees("a", "b") and not app.sees("b", "b")


def test_every_topic_is_more_than_every_namespace_but_one() -> None:
    assert grants([entry("a", "administer", "*/*")], "a").may_everywhere(Verb.ADMINISTER)
    assert not grants([entry("a", "administer", "*", "!b/*")], "a").may_everywhere(Verb.ADMINISTER)


# --- Whose a transaction is.

IN_A = [Touched(namespace="default", name="a", generation=1)]


def of(name: str, verbs: str, *topics: str) -> Caller:
    return Caller(name, access.parse_subject(name).owner, Grants((entry(name, verbs, *topics),)))


def test_only_the_subject_that_began_it_may_use_a_transaction() -> None:
    """Another that may publish to the very same topic could commit half of it, or block its end."""
    app, other = of("app", "publish", "*"), of("other", "publish administer", "*")
    access.check_owner(app, 7, app.owner)
    with pytest.raises(Forbidden, match="other did not begin transaction 7"):
        access.check_owner(other, 7, app.owner)


@pytest.mark.parametrize(
    ("topics", "touched", "may_end"),
    [
        ("default/a", IN_A, True),
        ("default/a", [*IN_A, Touched(namespace="default", name="b", generation=1)], False),
        ("*", [], True),
        ("mine/*", [], False),
    ],
)
def test_who_administers_all_that_a_transaction_touched_may_end_it(
    topics: str, touched: list[Touched], may_end: bool
) -> None:
    """Some of it is not enough: ending hides the rest, too.  One that touched nothing needs every topic."""
    with contextlib.nullcontext() if may_end else pytest.raises(Forbidden, match="administer every topic"):
        access.check_may_end(of("ops", "administer", topics), 7, "certificate:app", touched)


def test_owners_of_different_kinds_are_different() -> None:
    """A certificate that is called like an account is not that account."""
    account = of("serviceaccount:shop:till", "publish", "*")
    assert not account.owns("certificate:serviceaccount:shop:till")
    assert account.owns("serviceaccount:shop:till")


def test_records_without_an_owner_and_services_without_a_table_know_no_owners() -> None:
    assert of("app", "publish", "*").owns("")
    access.check_owner(UNRESTRICTED, 7, "certificate:app")
    access.check_may_end(UNRESTRICTED, 7, "certificate:app", IN_A)


def test_of_whom_nothing_is_known_nothing_is_granted() -> None:
    assert not UNIDENTIFIED.may(Verb.CONSUME, "a", "b") and not UNIDENTIFIED.sees("a", "b")
    assert not UNIDENTIFIED.owns("certificate:app")


# --- What is remembered of tokens.

TILL = Subject("serviceaccount", "shop:till")
WALL = 1_800_000_000.0


def token(**claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJh.{payload}.c2ln"


def test_a_minute_and_ten_while_the_api_is_away() -> None:
    cache = ReviewCache()
    cache.put(b"k", Review(TILL, 0.0, WALL + 300))
    assert cache.get(b"k", FRESH_SECONDS - 1, WALL) is not None
    assert cache.get(b"k", FRESH_SECONDS, WALL) is None
    assert cache.get(b"k", FRESH_SECONDS, WALL, away=True) is not None
    assert cache.get(b"k", FRESH_SECONDS, WALL + 300, away=True) is None
    cache.put(b"l", Review(TILL, 0.0, float("inf")))
    assert cache.get(b"l", AWAY_SECONDS, WALL, away=True) is None


def test_a_token_that_is_not_valid_is_asked_about_again_soon() -> None:
    cache = ReviewCache()
    cache.put(b"k", Review(None, 0.0, float("inf")))
    found = cache.get(b"k", 1.0, WALL, away=True)
    assert found is not None and found.account is None
    assert cache.get(b"k", 11.0, WALL, away=True) is None


def test_a_flood_of_bad_tokens_pushes_no_good_one_out() -> None:
    cache = ReviewCache(reviews_max=10)
    cache.put(b"good", Review(TILL, 0.0, float("inf")))
    for number in range(1000):
        cache.put(str(number).encode(), Review(None, 0.0, float("inf")))
    assert cache.get(b"good", 1.0, WALL) is not None
    assert len(cache) <= 11


def test_the_end_of_a_token_is_read_and_what_cannot_be_read_has_none() -> None:
    assert access.token_end(token(exp=5)) == 5.0
    assert access.token_end(token(sub="x")) == float("inf")
    assert access.token_end("a.%%%.c") == float("inf")
    assert access.token_end("a." + base64.urlsafe_b64encode(b"[" * 4000).decode().rstrip("=") + ".c") == float("inf")


def test_what_cannot_be_a_token_is_never_asked_about() -> None:
    assert access.looks_like_token(token(exp=5))
    for text in ("", "abc", "a.b", "a..c", "a.b.c.d", "a.b.c d", "a.b.\u00e4", "a.b." + "c" * 9000, "a.b\n.c"):
        assert not access.looks_like_token(text)
