"""Iceberg tables by a catalog in a real PostgreSQL: killed at commits, with lost answers, hung, and refusing."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.support.tables.iceberg_table import IcebergTable
from tests.support.tables.postgresql import PASSWORD, Between, PostgreSQL

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.iceberg import catalogs, compaction
from fairlead_ingest.table.commit import Collided
from fairlead_ingest.table.store_path import FROM_ENVIRONMENT

pytestmark = [pytest.mark.process, pytest.mark.verify]
FATES = ("lost", "never", "killed", "") * 3


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with PostgreSQL("synchronous_commit=off") as running:
        yield running


@pytest.fixture
def namespace() -> str:
    return uuid.uuid4().hex


def commit(table: IcebergTable, batch: int, database: PostgreSQL) -> int:
    """As the sink does it: every error means that the table is asked. How often it was tried."""
    tries = 0
    while True:
        tries += 1
        try:
            table.commit(batch, batch)
            return tries
        except (Collided, errors.Wait):
            assert tries < 20
            if database.running is None:
                database.start()


def test_a_database_killed_at_commits_that_loses_answers_has_each_batch_once(database, namespace, tmp_path):
    """What it said to be in is in after a kill, although its own setting would let it answer before."""
    with Between(database) as between:
        table = IcebergTable(tmp_path, between.catalog(namespace=namespace))
        for batch, fate in enumerate(FATES):
            between.fates[:] = [fate]
            commit(table, batch, database)
            if batch % 5 == 4:
                between.fates[:] = ["lost"]
                compaction.of(table.format, table.place).compact(target_bytes=1024 * 1024)
        assert Counter(between.happened) == Counter({"lost": 5, "never": 3, "killed": 3})
    direct = IcebergTable(tmp_path, database.catalog(namespace=namespace))
    assert direct.numbers() == list(range(len(FATES)))
    state = direct.format.state(direct.place, "app")
    assert (state.batch, state.commit_sequence, state.totals.rows) == (len(FATES) - 1, len(FATES), len(FATES))


def test_two_jobs_that_meet_in_an_empty_database_both_have_their_tables(database, tmp_path):
    """The tables of the catalog itself are made by both at once."""
    with database.asked() as asked:
        asked.execute("create database empty")
    start, failed = threading.Barrier(4), []

    def begin(name: str) -> None:
        start.wait()
        for _ in range(10):
            try:
                IcebergTable(tmp_path / name, database.catalog("empty", namespace=name)).commit(0, 1)
                return
            except errors.Wait:
                continue
            except errors.Stop as error:
                failed.append(error)
                return
        failed.append(errors.Stop(errors.CATALOG_AWAY, name))

    jobs = [threading.Thread(target=begin, args=(name,)) for name in "abcd"]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert failed == []
    for name in "abcd":
        assert IcebergTable(tmp_path / name, database.catalog("empty", namespace=name)).numbers() == [1]


def test_a_server_that_hangs_or_a_table_that_is_locked_is_one_that_does_not_answer(
    database, namespace, tmp_path, monkeypatch
):
    """Neither is waited for without an end, and the batch is in it once when that is over."""
    table = IcebergTable(tmp_path, database.catalog(namespace=namespace))
    table.commit(0, 0)
    monkeypatch.setattr(catalogs, "STATEMENT_SECONDS", 1.0)
    monkeypatch.setattr(catalogs, "CONNECT_SECONDS", 1)
    with database.hung(), pytest.raises(errors.Wait, match=errors.CATALOG_AWAY):
        table.format.state(table.place, "app")
    with database.asked() as other:
        decided, files = table.decided(1, 1), table.written(1)
        other.autocommit = False
        other.execute("lock table iceberg_tables in access exclusive mode")
        with pytest.raises(Collided) as lost:
            table.format.append(table.place, files, decided)  # type: ignore[arg-type]
        assert lost.value.unanswered is not None and "no answer within 1 s" in str(lost.value.unanswered)
        other.rollback()
    assert commit(table, 1, database) == 1
    assert table.numbers() == [0, 1]


def test_a_password_that_is_changed_while_a_job_runs_is_read_at_the_next_connection(database, namespace, tmp_path):
    with database.asked() as asked:
        asked.execute("create role turning superuser login password 'first'")
    file = tmp_path / "password"
    file.write_text("first\n")
    uri = f"postgresql+psycopg://turning@127.0.0.1:{database.port}/postgres"
    table = IcebergTable(tmp_path, database.catalog(uri=uri, password_file=str(file), namespace=namespace))
    table.commit(0, 1)
    with database.asked() as asked:
        asked.execute("alter role turning password 'second'")
        asked.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'turning'")
    with pytest.raises(errors.Stop, match=f"{errors.CATALOG_DENIED}: .*password authentication failed"):
        table.format.state(table.place, "app")
    file.write_text("second\n")
    assert table.commit(1, 2) is True
    assert table.numbers() == [1, 2]


def test_a_table_that_is_dropped_under_a_job_is_said(database, namespace, tmp_path):
    table = IcebergTable(tmp_path, database.catalog(namespace=namespace))
    table.commit(0, 1)
    decided, files = table.decided(1, 2), table.written(2)
    with database.asked() as asked:
        asked.execute("delete from iceberg_tables where table_namespace = %s", [namespace])
    with pytest.raises(Collided):
        table.format.append(table.place, files, decided)  # type: ignore[arg-type]
    with pytest.raises(errors.Stop, match=f"{errors.TABLE_UNFIT}: .*there is no table"):
        table.commit(1, 2)
    assert table.format.version(table.place) is None


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"password": "wrong-and-secret"}, errors.CATALOG_DENIED, "password authentication failed for user"),
        ({"password_file": None}, errors.CATALOG_DENIED, "no password supplied"),
        ({"user": "stranger"}, errors.CATALOG_DENIED, "password authentication failed"),
        ({"user": "reader", "password": "reads-only"}, errors.CATALOG_DENIED, "permission denied for schema public"),
        ({"database": "none"}, errors.CATALOG_UNFIT, 'database "none" does not exist; create it, or correct uri'),
        ({"query": "?sslmode=verify-full"}, errors.CATALOG_UNFIT, "SSL"),
        ({"query": "?sslmode=nonsense"}, errors.CATALOG_UNFIT, "invalid sslmode value"),
        ({"query": "?colour=red"}, errors.CATALOG_UNFIT, 'invalid connection option "colour"'),
        ({"driver": "nodriver"}, errors.BAD_OPTION, "install the driver"),
        ({"port": 9}, errors.CATALOG_AWAY, "Connection refused"),
        ({"port": "x"}, errors.BAD_OPTION, "not a database URL"),
    ],
)
def test_what_is_wrong_is_one_sentence_without_the_password(database, tmp_path, change, code, said):
    with database.asked() as asked:
        if not asked.execute("select 1 from pg_roles where rolname = 'reader'").fetchone():
            asked.execute("create role reader login password 'reads-only'")
            asked.execute("create database others")
    password = tmp_path / "password"
    password.write_text(change.get("password", PASSWORD))
    asked_for = {"driver": "psycopg", "user": "fairlead", "port": database.port, "database": "others", "query": ""}
    asked_for |= change
    uri = "postgresql+{driver}://{user}@127.0.0.1:{port}/{database}{query}".format(**asked_for)
    catalog = database.catalog(uri=uri, password_file=change.get("password_file", str(password)))
    with pytest.raises((errors.Stop, errors.Wait)) as error:
        catalogs.connect(catalog, FROM_ENVIRONMENT)
    assert str(error.value).startswith(f"{code}: [catalog] ") and said in str(error.value)
    assert "\n" not in str(error.value) and password.read_text() not in str(error.value)


def test_the_password_is_in_no_property_that_the_library_hands_on(database, tmp_path):
    opened = catalogs.connect(database.catalog(namespace="plain"), FROM_ENVIRONMENT)
    table = IcebergTable(tmp_path, database.catalog(namespace="plain"))
    table.commit(0, 1)
    assert PASSWORD not in f"{opened.properties} {opened!r} {vars(opened.load_table(('plain', 'rows')))}"
    assert not any(PASSWORD.encode() in each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert tables.count(table.format, table.place) == 1
