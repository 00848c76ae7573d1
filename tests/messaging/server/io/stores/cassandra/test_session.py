"""What the driver says, as sentences with a remedy."""

from __future__ import annotations

import ssl
from pathlib import Path

import cassandra
import pytest
from cassandra.cluster import NoHostAvailable

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra.session import (
    CassandraSession,
    TooManyTombstones,
    UnknownOutcome,
    driver_errors,
    read_password,
)
from fairlead_messaging.server.settings import CassandraModel

MODEL = CassandraModel(contact_points=["a:1"], username="till", password_file="/p")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (cassandra.OperationTimedOut(), UnknownOutcome, "unknown whether it took place"),
        (cassandra.WriteTimeout("late", write_type=0), UnknownOutcome, "unknown whether"),
        (cassandra.Unavailable("x", alive_replicas=1, required_replicas=2), StorageError, "1 of the 2 copies"),
        (cassandra.AuthenticationFailed("no"), StorageError, "refused the login of user till"),
        (cassandra.Unauthorized("no"), StorageError, "GRANT CREATE, SELECT, MODIFY ON KEYSPACE fairlead TO till"),
        (cassandra.ReadFailure("x", error_code_map={"n": 1}), TooManyTombstones, "deleted rows"),
        (cassandra.ReadFailure("x"), StorageError, "read"),
        (cassandra.InvalidRequest("what"), UnknownOutcome, "InvalidRequest: what"),
        (ssl.SSLError(1, "bad"), StorageError, "is cassandra.tls_ca the authority"),
        (NoHostAvailable("no", {}), UnknownOutcome, "none of a:1 can be used"),
        (NoHostAvailable("no", {"h": cassandra.AuthenticationFailed("x")}), StorageError, "refused the login"),
        (NoHostAvailable("no", {"h": StorageError("file is gone")}), StorageError, "file is gone"),
    ],
)
def test_errors_say_what_to_do(error: Exception, kind: type[StorageError], words: str) -> None:
    with pytest.raises(StorageError) as raised, driver_errors("read", MODEL):
        raise error
    assert type(raised.value) is kind or issubclass(type(raised.value), kind)
    assert words in str(raised.value)


def test_what_is_none_of_the_drivers_passes() -> None:
    with pytest.raises(KeyError), driver_errors("read", MODEL):
        raise KeyError("ours")


def test_the_password_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("a b\n")
    assert read_password(file) == "a b"
    with pytest.raises(StorageError, match="No such file"):
        read_password(tmp_path / "absent")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([("commitlog_sync", "periodic")], ["commitlog_sync_periodic"]),
        ([("commitlog_sync", "batch")], []),
        (StorageError("user till lacks a right"), ["commitlog_sync_unknown"]),
    ],
)
def test_nodes_that_forget_are_warned_of(
    answer: list[tuple[str, str]] | StorageError,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def execute(*_: object) -> list[tuple[str, str]]:
        if isinstance(answer, StorageError):
            raise answer
        return answer

    session = object.__new__(CassandraSession)
    session.model = MODEL
    monkeypatch.setattr(session, "execute", execute)
    session._judge_durability()
    assert caplog.messages == said
    assert all(record.levelname == "WARNING" for record in caplog.records)
