"""`GET /v1/backup`: one moment of the store, while it goes on; for those alone who may read everything."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.topics.messaging import Answer, serving, until
from tests.support.topics.messaging_access import ADMINISTRATOR, entry, guarded

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server import backup, settings
from fairlead_messaging.server.backup import BadBackup, Decoder, Rows
from fairlead_messaging.server.io.rest import backup as rest_backup
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.settings import AccessModel
from fairlead_messaging.server.store.memory_kv import MemoryKV, MemorySnapshot

ASK = b"GET /v1/backup HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def read(data: bytes) -> tuple[Decoder, Rows]:
    decoder = Decoder(io.BytesIO(data))
    found: Rows = []
    while (rows := decoder.next_block()) is not None:
        found += rows
    return decoder, found


async def test_it_has_every_row_of_one_moment() -> None:
    kv = MemoryKV()
    async with serving(kv) as topics:
        await topics.create("t")
        await topics.publish("t", "a", "b")
        with kv.snapshot() as snapshot:
            before = list(snapshot.scan(*keys.EVERYTHING))
        answer = await topics.ask("GET", "/v1/backup")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/vnd.fairlead.backup")
        decoder, rows = read(answer.body)
        assert rows == before and decoder.rows == len(before)
        assert (decoder.header.service, decoder.header.taken_ms) == ("test-service", topics.clock.now_ms)
        metrics = (await topics.ok("GET", "/metrics")).decode()
        assert "fairlead_messaging_backup_taken_timestamp_seconds 1.8e+09" in metrics
        assert (await topics.ask("HEAD", "/v1/backup")).status == 200


@pytest.mark.slow
async def test_publishing_goes_on_beside_it_and_a_second_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that takes nothing holds up no one but other backups; when it is gone the next one may begin."""
    monkeypatch.setattr(backup, "BLOCK_BYTES", 200_000)
    async with serving() as topics:
        await topics.create("t")
        for _ in range(40):
            await topics.publish("t", "x" * 700_000)
        before = await topics.ok("GET", "topics/t/offsets?ts=latest")
        host, port = topics.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1000)
        writer.write(ASK)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        refused = await topics.ask("GET", "/v1/backup")
        assert (refused.status, refused.code) == (503, "too_many_backups") and refused.headers["Retry-After"] == "60"
        await topics.publish("t", "more")
        assert await topics.payloads("t", startFrom=before["position"], inclusive=False) == ["more"]
        writer.close()
        await until(lambda: not topics.broker._readers._copying)
        assert read((await topics.ask("GET", "/v1/backup")).body)[0].rows > 40


@pytest.mark.slow
async def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_backup, "PIECE_SECONDS_MAX", 0.2)
    async with serving() as topics:
        await topics.create("t")
        for _ in range(40):
            await topics.publish("t", "x" * 700_000)
        host, port = topics.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1000)
        writer.write(ASK)
        await reader.readline()
        readers = topics.broker._readers
        await until(lambda: not readers._copying)
        writer.close()


class Failing(MemoryKV):
    """Its scans end in the middle."""

    fails = False

    def snapshot(self, *, sequential: bool = False) -> MemorySnapshot:
        snapshot = super().snapshot(sequential=sequential)
        if not (self.fails and sequential):
            return snapshot
        whole = snapshot.scan

        def scan(low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
            for number, row in enumerate(whole(low, high)):
                if number == 5:
                    raise StorageError("disk")
                yield row

        snapshot.scan = scan  # type: ignore[method-assign]
        return snapshot


async def test_a_store_that_fails_meanwhile_gives_no_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first piece it is an answer of 503; later the connection ends."""
    monkeypatch.setattr(backup, "BLOCK_BYTES", 1)
    kv = Failing()
    async with serving(kv) as topics:
        await topics.create("t")
        await topics.publish("t", *"abcdefgh")
        kv.fails = True
        host, port = topics.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(ASK.replace(b"HTTP/1.1", b"HTTP/1.0"))
        got = b""
        with contextlib.suppress(ConnectionError):
            got = await reader.read()
        writer.close()
        with pytest.raises(BadBackup, match="cut short"):
            read(got.partition(b"\r\n\r\n")[2])


def granted(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.body["error"].get("verb", "") if answer.status != 200 else ""


async def test_both_verbs_must_be_granted_on_every_topic(tmp_path: Path) -> None:
    entries = (
        entry("all", "administer consume", "*"),
        entry("reads", "consume", "*"),
        entry("rules", "administer", "*"),
        entry("some", "administer consume", "default/*"),
        entry("most", "administer consume", "*", "!secret/*"),
        entry("half", "administer", "*"),
        entry("half", "consume", "default/*"),
    )
    async with guarded(tmp_path, *entries) as service:
        await service.create("default/t")
        found = {name: granted(await service.ask(name, "GET", "/backup")) for name in
                 ("all", "reads", "rules", "some", "most", "half", "stranger")}  # fmt: skip
        assert found == {
            "all": (200, ""),
            "reads": (403, "administer"),
            "rules": (403, "consume"),
            "some": (403, "administer"),
            "most": (403, "administer"),
            "half": (403, "consume"),
            "stranger": (403, ""),
        }


async def test_a_grant_that_is_taken_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup takes minutes; who may no longer read gets no more of it."""
    async with guarded(tmp_path, entry("gone", "administer consume", "*")) as service:
        await service.create("default/t")
        for _ in range(5):
            await service.publish("administrator", "default/t", "x" * 100_000)
        monkeypatch.setattr(backup, "BLOCK_BYTES", 1)
        encode = backup.encode

        def taken_away(*args: object, **named: object) -> object:
            for number, piece in enumerate(encode(*args, **named)):  # type: ignore[arg-type]
                if number == 4:
                    left = [AccessModel.model_validate(ADMINISTRATOR)]
                    asyncio.run_coroutine_threadsafe(_replace(left), loop).result(60)
                yield piece

        async def _replace(left: list[AccessModel]) -> None:
            service.access.replace(settings.access_table(left))

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(backup, "encode", taken_away)
        with pytest.raises(Exception, match=r"(?i)payload|disconnected|closed|reset"):
            await service.ask("gone", "GET", "/backup")
