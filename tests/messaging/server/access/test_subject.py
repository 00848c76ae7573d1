"""Whose request it is."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_messaging.server import access
from fairlead_messaging.server.access import Subject


def certificate(common: str | None, *alternatives: tuple[str, str]) -> dict[str, Any]:
    """As ``getpeercert()`` has it."""
    return {"subject": ((("commonName", common),),) if common is not None else (), "subjectAltName": alternatives}


def test_the_kinds_of_names_are_told_apart_by_their_beginning() -> None:
    """As one writes them in the table."""
    assert access.parse_subject("fairlead-hub") == Subject("certificate", "fairlead-hub")
    assert access.parse_subject("spiffe://corp/billing") == Subject("spiffe", "spiffe://corp/billing")
    assert access.parse_subject("serviceaccount:shop:till") == Subject("serviceaccount", "shop:till")


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


def test_a_common_name_is_a_name_whatever_it_reads_like() -> None:
    """An authority that signs any common name gives out neither accounts nor URIs by it."""
    for name in ("serviceaccount:shop:till", "spiffe://corp/billing"):
        assert access.identity_of_certificate(certificate(name)).subjects == (Subject("certificate", name),)


def test_the_first_dns_name_counts_where_there_is_no_common_name() -> None:
    """And nothing where there is neither."""
    found = access.identity_of_certificate(certificate(None, ("DNS", "a.example"), ("DNS", "b.example")))
    assert found.subjects == (Subject("certificate", "a.example"),)
    assert access.identity_of_certificate(certificate(None)).subjects == ()
    assert access.identity_of_certificate(certificate("")).subjects == ()
    assert "without a name" in str(access.identity_of_certificate(certificate(None)))


def test_one_uri_is_a_name_beside_the_other_and_two_are_none() -> None:
    """SPIFFE allows exactly one; which of two is meant nothing says."""
    found = access.identity_of_certificate(certificate("till", ("URI", "spiffe://corp/till")))
    assert set(found.subjects) == {Subject("certificate", "till"), Subject("spiffe", "spiffe://corp/till")}
    two = certificate("till", ("URI", "spiffe://corp/till"), ("URI", "spiffe://corp/billing"))
    assert access.identity_of_certificate(two).subjects == (Subject("certificate", "till"),)


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
    """Nor those that only begin like one."""
    assert access.account_of_user("system:serviceaccount:shop:till") == Subject("serviceaccount", "shop:till")
    for user in ("admin", "system:serviceaccount:", "system:serviceaccount:shop", "system:node:x", "shop:till", ""):
        assert access.account_of_user(user) is None
