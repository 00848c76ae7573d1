"""Refusals are counted, said now and then, and name what is missing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead_messaging.api.errors import Forbidden, Unauthenticated
from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server.io import access_control
from fairlead_messaging.server.io.access_control import AccessControl, of_settings
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.settings import AccessModel, MessagingSettings, access_table
from fairlead_wire.io.settings import SettingsError, load

APP = {"subject": ((("commonName", "app"),),)}
FILES: dict[str, Any] = {"tls_ca": "ca.crt", "tls_cert": "tls.crt", "tls_key": "tls.key"}
SECRET = "eyJh.eyJzdWIiOiJ4In0.c2VjcmV0"


def control() -> tuple[AccessControl, MessagingMetrics]:
    metrics = MessagingMetrics()
    entries = [AccessModel(subject="app", verbs=["publish"], topics=["default/a"])]
    return AccessControl(access_table(entries), metrics), metrics


async def test_a_refusal_names_verb_and_topic_and_is_counted() -> None:
    access, metrics = control()
    caller = await access.caller(APP, None, "10.0.0.1")
    with pytest.raises(Forbidden, match="app may not publish to default/b") as caught:
        access.refuse(caller, Verb.PUBLISH, "default/b", "10.0.0.1")
    assert caught.value.facts == {"verb": "publish", "topic": "default/b"}
    assert b'access_refused_total{verb="publish"} 1.0' in metrics.text()


async def test_a_subject_that_tries_every_topic_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
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
    access, _ = control()
    caller = await access.caller(APP, None, "10.0.0.1")
    with pytest.raises(Forbidden) as caught:
        access.refuse(caller, Verb.CONSUME, "x" * 8000, "10.0.0.1")
    assert len(str(caught.value)) < 1000


async def test_who_shows_nothing_is_not_known() -> None:
    access, _ = control()
    for authorization in (None, "", "Basic YTpi", f"Bearer {SECRET}"):
        with pytest.raises(Unauthenticated) as caught:
            await access.caller(None, authorization, "10.0.0.1")
        assert SECRET not in str(caught.value)
    with pytest.raises(Unauthenticated):
        await access.caller({}, None, "10.0.0.1")


async def test_a_subject_without_any_entry_is_refused_before_a_topic_is_looked_at() -> None:
    access, metrics = control()
    for certificate in ({"subject": ((("commonName", "App"),),)}, {"serialNumber": "1"}):
        with pytest.raises(Forbidden, match="no access entry"):
            await access.caller(certificate, None, "10.0.0.1")
    assert b'access_refused_total{verb="none"} 2.0' in metrics.text()


def test_a_service_that_grants_nothing_says_so_at_its_start(caplog: pytest.LogCaptureFixture) -> None:
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
    access, _ = control()
    for said in ({}, {"notAfter": ""}, {"notAfter": "one day"}):
        assert await access.caller({**APP, **said}, None, "10.0.0.1")
        assert not access.is_to_close({**APP, **said})
    assert not access.is_to_close(None)


# --- Grants that change in the file change in the service; wrong ones change nothing.

TLS = 'tls_ca = "/ca"\ntls_cert = "/cert"\ntls_key = "/key"\n'


def entry(subject: str, topic: str = "*") -> str:
    return f'[[access]]\nsubject = "{subject}"\nverbs = ["publish"]\ntopics = ["{topic}"]\n'


class World:
    """A service's access, and its file, which is looked at all the time."""

    def __init__(self, folder: Path, logs: pytest.LogCaptureFixture, *, write: bool = True) -> None:
        self._logs = logs
        self.readable = True
        self.file = folder / "messaging.toml"
        if write:
            self.file.write_text(TLS + entry("till", "shop/sales"))
        self.settings = self.read(self.file)
        self.access: AccessControl = access_control.of_settings(self.settings, MessagingMetrics())

    def read(self, path: Path) -> MessagingSettings:
        if not self.readable:  # tests may run as root, who can read every file
            raise SettingsError(str(path), "", "Permission denied")
        return load("messaging", MessagingSettings, path, {})

    @contextlib.asynccontextmanager
    async def looked_at(self) -> AsyncIterator[None]:
        with self._logs.at_level(logging.INFO):
            looking = asyncio.create_task(
                access_control.keep_loaded(self.file, self.settings, self.access, self.read, seconds=0.01)
            )
            try:
                yield
            finally:
                looking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await looking

    def write(self, text: str) -> None:
        draft = self.file.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self.file)

    async def may(self, name: str, topic: str) -> bool:
        certificate = {"subject": ((("commonName", name),),), "notAfter": "Jan  1 00:00:00 2100 GMT"}
        try:
            caller = await self.access.caller(certificate, None, "peer")
        except Forbidden:
            return False
        return caller.grants is not None and caller.may(Verb.PUBLISH, *topic.split("/"))

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while True:
                found = condition()
                if await found if asyncio.iscoroutine(found) else found:
                    return
                await asyncio.sleep(0.005)

    def said(self, event: str) -> list[dict[str, Any]]:
        return [each.fields for each in self._logs.records if each.getMessage() == event]  # type: ignore[attr-defined]


@pytest.fixture
async def world(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[World]:
    made = World(tmp_path, caplog)
    async with made.looked_at():
        yield made


async def test_other_grants_count_without_a_restart(world: World) -> None:
    assert await world.may("till", "shop/sales") and not await world.may("office", "shop/sales")
    world.write(TLS + entry("office"))
    await world.until(lambda: world.may("office", "shop/sales"))
    assert not await world.may("till", "shop/sales")
    await world.until(lambda: world.said("access_reloaded"))
    assert world.said("access_reloaded")[0]["entries"] == 1 and not world.said("restart_needed")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TLS + "[[access", "messaging.toml"),
        (TLS + "limit = " + "9" * 5000, "not TOML"),
        (TLS + entry("till").replace('"publish"', '"read"'), "verbs"),
        (TLS + entry("till") + "unknown = 3\n", "unknown"),
        (TLS + entry("serviceaccount:shop:till"), "no entry did when the service started"),
    ],
)
async def test_a_wrong_file_keeps_the_old_grants_and_says_so_once(world: World, text: str, reason: str) -> None:
    world.write(text)
    await world.until(lambda: world.said("access_kept"))
    [line] = world.said("access_kept")
    assert reason in line["reason"] and "correct" in line["remedy"]
    assert await world.may("till", "shop/sales") and not await world.may("till", "shop/other")
    world.write(TLS + entry("till"))
    await world.until(lambda: world.may("till", "shop/other"))
    assert len(world.said("access_kept")) == 1


async def test_a_file_that_is_gone_keeps_the_old_grants(world: World) -> None:
    world.file.unlink()
    await world.until(lambda: world.said("access_kept"))
    assert await world.may("till", "shop/sales")


async def test_a_file_that_may_be_read_again_is_read_again(world: World) -> None:
    """Its mode was wrong: what stands in it is as before, and counts once it can be read."""
    draft = world.file.with_suffix(".new")
    draft.write_text(TLS + entry("office"))
    readable, world.readable = world.readable, False
    draft.replace(world.file)
    await world.until(lambda: world.said("access_kept"))
    assert await world.may("till", "shop/sales")
    world.readable = readable
    world.file.chmod(0o640)
    await world.until(lambda: world.may("office", "shop/sales"))


async def test_what_changed_between_the_start_and_the_first_look_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, caplog)
    world.write(TLS + entry("office"))
    async with world.looked_at():
        await world.until(lambda: world.may("office", "shop/sales"))
    assert not await world.may("till", "shop/sales")


async def test_a_config_map_is_read_through_its_links(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a kubelet changes it: a new folder, and one link that is moved there."""
    for name, text in (("..one", TLS + entry("till", "shop/sales")), ("..two", TLS + entry("office"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "messaging.toml").write_text(text)
    (tmp_path / "..data").symlink_to("..one")
    (tmp_path / "messaging.toml").symlink_to("..data/messaging.toml")
    world = World(tmp_path, caplog, write=False)
    async with world.looked_at():
        (tmp_path / "..new").symlink_to("..two")
        (tmp_path / "..new").replace(tmp_path / "..data")
        shutil.rmtree(tmp_path / "..one")
        await world.until(lambda: world.may("office", "shop/sales"))
        assert not await world.may("till", "shop/sales")


async def test_other_settings_need_a_restart_and_that_is_said(world: World) -> None:
    world.write('log_level = "warning"\n' + TLS + entry("office"))
    await world.until(lambda: world.said("restart_needed"))
    assert await world.may("office", "shop/sales")


async def test_half_a_file_is_not_read_while_it_is_written(world: World) -> None:
    """Each write makes it another one; it is read when it has rested."""
    for number in range(40):
        with world.file.open("a") as file:
            file.write(entry(f"client-{number}"))
        await asyncio.sleep(0)
    await world.until(lambda: world.may("client-39", "a/b"))
    assert await world.may("till", "shop/sales")
