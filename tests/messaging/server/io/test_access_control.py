"""Refusals are counted, said now and then, and name what is missing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from fairlead_messaging.api.errors import Forbidden, Unauthenticated
from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server.io.access_control import AccessControl, of_settings
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.settings import AccessModel, MessagingSettings, access_table

APP = {"subject": ((("commonName", "app"),),)}
FILES: dict[str, Any] = {"tls_ca": "ca.crt", "tls_cert": "tls.crt", "tls_key": "tls.key"}
SECRET = "eyJh.eyJzdWIiOiJ4In0.c2VjcmV0"


def control() -> tuple[AccessControl, MessagingMetrics]:
    metrics = MessagingMetrics()
    entries = [AccessModel(subject="app", verbs=["publish"], topics=["default/a"])]
    return AccessControl(access_table(entries), metrics), metrics


async def test_a_refusal_names_verb_and_topic_and_is_counted() -> None:
    """What to write into the table follows from it."""
    access, metrics = control()
    caller = await access.caller(APP, None, "10.0.0.1")
    with pytest.raises(Forbidden, match="app may not publish to default/b") as caught:
        access.refuse(caller, Verb.PUBLISH, "default/b", "10.0.0.1")
    assert caught.value.facts == {"verb": "publish", "topic": "default/b"}
    assert b'access_refused_total{verb="publish"} 1.0' in metrics.text()


async def test_a_subject_that_tries_every_topic_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """One line a minute for a subject and verb; the metric counts them all."""
    access, metrics = control()
    caller = await access.caller(APP, None, "10.0.0.1")
    with caplog.at_level(logging.WARNING):
        for number in range(500):
            with pytest.raises(Forbidden):
                access.refuse(caller, Verb.CONSUME, f"default/{number}" * 1000, "10.0.0.1")
    lines = [record for record in caplog.records if "access_refused" in record.getMessage()]
    assert len(lines) == 1
    assert b'access_refused_total{verb="consume"} 500.0' in metrics.text()


async def test_a_long_name_makes_no_long_answer() -> None:
    """Names come from paths."""
    access, _ = control()
    caller = await access.caller(APP, None, "10.0.0.1")
    with pytest.raises(Forbidden) as caught:
        access.refuse(caller, Verb.CONSUME, "x" * 8000, "10.0.0.1")
    assert len(str(caught.value)) < 1000


async def test_who_shows_nothing_is_not_known() -> None:
    """401; a token is no use where none is taken."""
    access, _ = control()
    for authorization in (None, "", "Basic YTpi", f"Bearer {SECRET}"):
        with pytest.raises(Unauthenticated) as caught:
            await access.caller(None, authorization, "10.0.0.1")
        assert SECRET not in str(caught.value)
    with pytest.raises(Unauthenticated):
        await access.caller({}, None, "10.0.0.1")


async def test_a_subject_without_any_entry_is_refused_before_a_topic_is_looked_at() -> None:
    """And a certificate without any name."""
    access, metrics = control()
    for certificate in ({"subject": ((("commonName", "App"),),)}, {"serialNumber": "1"}):
        with pytest.raises(Forbidden, match="no access entry"):
            await access.caller(certificate, None, "10.0.0.1")
    assert b'access_refused_total{verb="none"} 2.0' in metrics.text()


def test_a_service_that_grants_nothing_says_so_at_its_start(caplog: pytest.LogCaptureFixture) -> None:
    """Deny by default: without an entry every request is refused."""
    with caplog.at_level(logging.WARNING):
        of_settings(MessagingSettings(security="insecure"), MessagingMetrics())
        assert not caplog.text
        of_settings(MessagingSettings(**FILES), MessagingMetrics())
        assert "access_denied_to_all" in caplog.text


def test_tokens_are_taken_where_an_entry_names_an_account() -> None:
    """Nowhere else may a client come without a certificate."""
    for subject, takes in (("app", False), ("serviceaccount:shop:till", True)):
        said = AccessModel(subject=subject, verbs=["publish"], topics=["default/*"])
        assert of_settings(MessagingSettings(**FILES, access=[said]), MessagingMetrics()).takes_tokens is takes


async def test_a_certificate_that_does_not_say_when_it_ends_is_let_in() -> None:
    """TLS has looked at it; what cannot be read here refuses no one."""
    access, _ = control()
    for said in ({}, {"notAfter": ""}, {"notAfter": "one day"}):
        assert await access.caller({**APP, **said}, None, "10.0.0.1")
        assert not access.is_to_close({**APP, **said})
    assert not access.is_to_close(None)
