"""Objects in a real store: uploads, what is wrong with a store in a sentence, and commits whose answers are lost."""

from __future__ import annotations

import datetime
import itertools
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.tables.object_store import ACCESS_KEY, REGION, ObjectStore
from tests.support.tables.store_proxy import StoreProxy

from fairlead_ingest import errors
from fairlead_ingest.io.sink import batch_commit
from fairlead_ingest.io.sink.batch_commit import BatchCommit
from fairlead_ingest.io.table import collisions, delta, maintenance, object_store, tables
from fairlead_ingest.io.table.delta import delta_table, log_reader, log_writer
from fairlead_ingest.io.table.delta.delta_table import STORE_CHECKPOINT_COMMITS
from fairlead_ingest.io.table.delta.log_reader import HISTORY_NEAR
from fairlead_ingest.io.table.files import FILES_AT_ONCE, WrittenFile
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table.commit_info import BatchCounts
from fairlead_ingest.table.store_path import Place, Storage, StorePath, parse

pytestmark = pytest.mark.process
SCHEMA = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
REQUESTS_MAX = 12


@pytest.fixture
def proxy(store: ObjectStore, tmp_path: Path) -> Iterator[StoreProxy]:
    with StoreProxy(store, tmp_path) as running:
        yield running


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Of a process that has not delta_table a store yet, and takes none with it."""
    object_store._kept.cache_clear()
    yield monkeypatch
    object_store._kept.cache_clear()


def rows_of(table: Place) -> list[str]:
    return sorted(tables.existing(tables.of("delta"), table).to_table(columns=["_id"])["_id"].to_pylist())


def written(table: Place, name: str) -> list[WrittenFile]:
    writing = delta.writing(table)
    row = {"_id": name, "_topic": "a/b", "_date": datetime.date(2026, 11, 23)}
    writing.add(pa.Table.from_pylist([row], schema=SCHEMA))
    return writing.close()


def batch(number: int, application: str = "app") -> BatchCommit:
    def offset(at: int) -> TopicOffset:
        start = f"{at:03}" if at else ""
        return TopicOffset(generation=1, position=f"{at + 1:03}", start_generation=1, start_position=start, rows=1)

    end = Offsets(service="s", topics={"a/b": offset(number)})
    before = Offsets(service="s", topics={"a/b": offset(number - 1)}) if number else None
    return BatchCommit(table_format=tables.of("delta"), application=application, number=number, end=end, before=before)


def commit(table: Place, number: int) -> None:
    """As Spark does: a batch that could not be committed now is committed again."""
    deadline = time.monotonic() + 60
    while True:
        try:
            if not batch(number).is_in(table):
                batch(number).append(table, written(table, f"{number:03}"), BatchCounts(rows=1))
            return
        except errors.Wait:
            assert time.monotonic() < deadline


def test_an_object_is_there_when_its_upload_is_finished_and_not_before(store):
    """Small ones in one put, large ones in parts; what is given up leaves nothing."""
    small, large = store.place("uploads/small"), store.place("uploads/large")
    for path, content in ((small, b"abc"), (large, bytes(range(256)) * 40_000)):
        upload = object_store.Upload(path)
        for begin in range(0, len(content), 1 << 20):
            upload.write(content[begin : begin + (1 << 20)])
        upload.close()
        assert Path(path.key) not in store.objects()
        assert upload.finish() == len(content)
        assert object_store.read(path) == content
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TABLE_UNFIT: .*NoSuchKey"):
        object_store.read(store.place("uploads/none"))


def test_sizes_are_those_of_the_objects_below_a_path(store):
    table = store.place("sized/rows")
    for name, size in {"a": 3, "_date=1/b": 5}.items():
        upload = object_store.Upload(table / name)
        upload.write(b"x" * size)
        upload.finish()
    object_store.Upload(store.place("sized/rows_gaps/c")).finish()
    assert object_store.sizes(table) == {"a": 3, "_date=1/b": 5}
    assert object_store.sizes(store.place("sized/none")) == {}


def test_objects_below_a_path_are_listed_and_deleted(store):
    """One that is not there is none, and is deleted without a word."""
    path = store.place("listed/here")
    for name in ("a", "b/c"):
        object_store.write(path / name, b"x")
    assert sorted(name for name, _ in object_store.below(path) if not name.endswith("/")) == ["a", "b/c"]
    assert object_store.found(path / "a") == b"x" and object_store.found(path / "none") is None
    object_store.delete_below(path, ["a", "none"])
    object_store.delete_below(path, [])
    assert object_store.found(path / "a") is None
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_STORE_UNFIT: .*no bucket"):
        object_store.found(parse("s3://no-such-bucket/x", store.storage))


def test_a_list_is_asked_for_again_where_credentials_ended(store, monkeypatch):
    """Once, with new ones; what the store says of those counts."""
    path = store.place("listed")
    object_store.write(path / "a", b"1")
    real, ended = obstore.list, [0, 1]

    def listed(*args: Any, **keywords: Any) -> Any:
        if ended.pop():
            raise OSError("Generic S3 error: <Error><Code>ExpiredToken</Code><Message>No.</Message></Error>")
        return real(*args, **keywords)

    monkeypatch.setattr(obstore, "list", listed)
    assert "a" in dict(object_store.below(path))
    ended[:] = [1, 1]
    with pytest.raises(errors.Stop, match=r"DENIED: .*ExpiredToken"):
        next(object_store.below(path))


def test_a_list_that_outlives_its_credentials_continues_where_it_stopped(store, monkeypatch):
    path = store.place("long/list")
    names = [f"part-{number}" for number in range(7)]
    for name in names:
        object_store.write(path / name, b"123")
    real, sessions = obstore.list, []

    def listed(*args: Any, **keywords: Any) -> Any:
        sessions.append(keywords)
        yield from itertools.islice(real(*args, chunk_size=2, **keywords), 1)
        raise OSError("Generic S3 error: <Error><Code>ExpiredToken</Code><Message>No.</Message></Error>")

    def listed_to_the_end(*args: Any, **keywords: Any) -> Any:
        yield from listed(*args, **keywords) if len(sessions) < 3 else real(*args, **keywords)

    monkeypatch.setattr(obstore, "list", listed_to_the_end)
    assert [name for name, _ in object_store.below(path)] == names and len(sessions) == 3
    sessions.clear()
    assert object_store.sizes(path) == dict.fromkeys(names, 3)


def test_a_file_of_a_table_is_parquet_as_in_a_folder(store):
    table = store.place("files/rows")
    (file,) = written(table, "one")
    there = store.content / table.key / file.path
    assert pq.read_metadata(there).num_rows == file.rows == 1
    assert there.stat().st_size == file.size


def test_files_of_many_topics_are_uploaded_side_by_side(store, monkeypatch):
    table = store.place("many/rows")
    writing = delta.writing(table)
    topics = [f"a/{number}" for number in range(2 * FILES_AT_ONCE)]
    day = datetime.date(2026, 11, 23)
    writing.add(pa.Table.from_pylist([{"_id": topic, "_topic": topic, "_date": day} for topic in topics], SCHEMA))
    together = threading.Barrier(FILES_AT_ONCE)
    finish = object_store.Upload.finish

    def finished(upload: object_store.Upload) -> int:
        together.wait(60)
        return finish(upload)

    monkeypatch.setattr(object_store.Upload, "finish", finished)
    files = writing.close()
    assert [file.topic for file in files] == topics
    for file in files:
        there = store.content / table.key / file.path
        assert pq.read_table(there, partitioning=None)["_id"].to_pylist() == [file.topic]


def storage(store: ObjectStore, **changed: str | None) -> Storage:
    known = {name: getattr(store.storage, name) for name in Storage.__struct_fields__}
    return Storage(**{**known, **changed})


def test_what_is_wrong_with_a_store_is_one_sentence_before_anything_is_written(store, tmp_path):
    wrong = tmp_path / "secret"
    wrong.write_text("xyzzy-wrong-secret")
    cases: list[tuple[StorePath, type[Exception], str]] = [
        (parse("s3://no-such-bucket/rows", store.storage), errors.Stop, "FAIRLEAD_STORE_UNFIT: .*no bucket"),
        (parse("s3://tables/x", storage(store, access_key_id="nobody")), errors.Stop, "FAIRLEAD_STORE_DENIED"),
        (
            parse("s3://tables/x", storage(store, secret_access_key_file=str(wrong))),
            errors.Stop,
            "FAIRLEAD_STORE_DENIED: .*SignatureDoesNotMatch",
        ),
        (
            parse("s3://tables/x", storage(store, secret_access_key_file=str(tmp_path / "none"))),
            errors.Stop,
            "FAIRLEAD_BAD_OPTION: .*secret_access_key_file",
        ),
        (parse("s3://tables/x", storage(store, endpoint_url="http://127.0.0.1:1")), errors.Wait, "FAIRLEAD_STORE_AWAY"),
    ]
    before = store.objects()
    for place, kind, sentence in cases:
        for ask in (object_store.probe, lambda table: delta.ensure(table, SCHEMA)):
            with pytest.raises(kind, match=sentence) as refused:
                ask(place)
            assert "xyzzy" not in str(refused.value) and "\n" not in str(refused.value), refused.value
    assert store.objects() == before


@pytest.mark.parametrize("content", ["", "two\nlines", "\x00\x01", "\x1b[31m"])
@pytest.mark.parametrize("key", ["secret_access_key_file", "session_token_file"])
def test_a_file_that_holds_no_secret_is_a_mistake_of_the_settings(store, tmp_path, key, content):
    file = tmp_path / "file"
    file.write_text(content)
    place = parse("s3://tables/x", storage(store, **{key: str(file)}))
    for ask in (object_store.probe, lambda table: delta.ensure(table, SCHEMA)):
        with pytest.raises(errors.Stop, match=f"FAIRLEAD_BAD_OPTION: .*{key}.*one line"):
            ask(place)


@pytest.mark.parametrize(
    ("name", "value", "without", "sentence"),
    [
        ("AWS_ACCESS_KEY_ID", "key\n", "access_key_id", "BAD_OPTION: AWS_ACCESS_KEY_ID in the environment: .*one line"),
        ("AWS_SECRET_ACCESS_KEY", "xyzzy\n", "secret_access_key_file", "BAD_OPTION: AWS_SECRET_ACCESS_KEY in the env"),
        ("AWS_SECRET_ACCESS_KEY", "", "secret_access_key_file", "(BAD_OPTION|STORE_DENIED): "),
        ("AWS_SESSION_TOKEN", "a\nb", "session_token_file", "BAD_OPTION: AWS_SESSION_TOKEN in the environment"),
        ("AWS_ENDPOINT_URL", "http://192.0.2.1:9000", "endpoint_url", "BAD_OPTION: AWS_ENDPOINT_URL in the env.*https"),
        ("AWS_ENDPOINT_URL", "store:9000", "endpoint_url", "BAD_OPTION: AWS_ENDPOINT_URL in the environment: .*https"),
        ("AWS_REGION", "eu-west-9", "region", "STORE_UNFIT: .*expecting .us-east-1."),
        ("AWS_REQUEST_PAYER", "perhaps", "session_token_file", "BAD_OPTION: .*boolean"),
    ],
)
def test_what_is_wrong_in_the_environment_is_said_and_not_waited_for(
    store, environment, name, value, without, sentence
):
    environment.setenv(name, value)
    with pytest.raises(errors.Stop, match=f"FAIRLEAD_{sentence}") as refused:
        object_store.probe(parse("s3://tables/x", storage(store, **{without: None})))
    assert "xyzzy" not in str(refused.value) and "&#" not in str(refused.value)


def test_the_environment_does_not_switch_conditions_off(store, environment):
    environment.setenv("AWS_CONDITIONAL_PUT", "disabled")
    object_store.probe(store.place("conditions/rows"))
    delta.ensure(store.place("conditions/rows"), SCHEMA)
    commit(store.place("conditions/rows"), 0)
    assert rows_of(store.place("conditions/rows")) == ["000"]


def test_a_new_secret_in_the_file_is_used_at_once(tmp_path):
    with ObjectStore(tmp_path / "store") as store:
        table = store.place("rotated/rows")
        delta.ensure(table, SCHEMA)
        commit(table, 0)
        store.kill()
        store.secret.write_text("another-secret-of-the-same-key\n")
        store.start()
        commit(table, 1)
        assert rows_of(table) == ["000", "001"]


def test_a_probe_leaves_nothing_behind(store):
    before = store.objects()
    object_store.probe(store.place("probed/rows"))
    assert store.objects() == before


class _TakesEverything(BaseHTTPRequestHandler):
    """A store that does not know conditions: it takes the second put as well."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(200)
        self.send_header("ETag", '"0"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_DELETE(self) -> None:
        self.send_response(204)
        self.end_headers()

    do_POST = do_PUT

    def log_message(self, *_: object) -> None:
        pass


def test_a_store_that_ignores_conditions_is_refused(store):
    server = ThreadingHTTPServer(("127.0.0.1", 0), _TakesEverything)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(errors.Stop, match=r"FAIRLEAD_STORE_UNFIT: .*If-None-Match"):
            object_store.probe(parse("s3://tables/rows", storage(store, endpoint_url=url)))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_lost_answers_refusals_and_throttling_of_commits_lose_and_duplicate_no_row(proxy):
    """The commit may stand although no answer came: what is in the table is looked at, never assumed."""
    table = proxy.place("mishaps/rows")
    delta.ensure(table, SCHEMA)
    expected = []
    for number, mishap in enumerate(["lost", "", "503", "409", "lost", "lost", "503", ""]):
        proxy.mishaps([mishap])
        commit(table, number)
        expected.append(f"{number:03}")
    assert rows_of(table) == expected
    assert delta.state(table, "app").commit_sequence == len(expected)
    happened = proxy.happened()
    assert (happened["lost"], happened["503"], happened["409"]) == (3, 2, 1)


def append_with_retry(table: StorePath, files: list[WrittenFile]) -> None:
    collisions.retried(table, lambda: delta.append(table, files, tables.UNNUMBERED), tries=2)


@pytest.mark.verify
def test_in_a_storm_of_refusals_and_resets_each_row_is_in_once(proxy):
    """A slow store that answers every twentieth request by 503 and breaks every hundredth connection."""
    table = proxy.place("storm/rows")
    delta.ensure(table, SCHEMA)
    proxy.weather(delay=(0.03, 0.3), busy=0.05, resets=0.01)
    for number in range(12):
        commit(table, number)
    proxy.weather()
    assert rows_of(table) == [f"{number:03}" for number in range(12)]
    happened = proxy.happened()
    assert happened["503"] > 0


def test_a_store_that_is_too_busy_for_commits_is_waited_for(proxy, monkeypatch):
    """It is no other job that commits all the time, for which the job would stop."""
    monkeypatch.setattr(batch_commit, "COLLISIONS_MAX", 2)
    table = proxy.place("busy/rows")
    delta.ensure(table, SCHEMA)
    proxy.mishaps(["503"] * 100)
    with pytest.raises(errors.Wait, match=r"FAIRLEAD_STORE_AWAY: .*SlowDown"):
        batch(0).append(table, written(table, "000"), BatchCounts(rows=1))
    with pytest.raises(errors.Wait, match=r"FAIRLEAD_STORE_AWAY: .*SlowDown"):
        append_with_retry(table, written(table, "000"))
    proxy.mishaps([])
    commit(table, 0)
    assert rows_of(table) == ["000"]


def test_files_of_a_lost_answer_that_were_joined_meanwhile_do_not_come_again(proxy, monkeypatch):
    """A commit of no batch has no number to be known by, and added again after a compaction its rows would be twice."""
    table = proxy.place("joined/rows")
    delta.ensure(table, SCHEMA)
    commit(table, 0)
    forget = delta_table.forget
    joined: list[int] = []

    def forget_and_join(place: StorePath) -> None:
        forget(place)
        if not joined:
            joined.append(
                maintenance.delta_compaction(place).compact(target_bytes=maintenance.TARGET_BYTES)["files_removed"]
            )

    proxy.mishaps(["lost"])
    monkeypatch.setattr(delta_table, "forget", forget_and_join)
    append_with_retry(table, written(table, "backfill"))
    assert joined == [2]
    assert rows_of(table) == ["000", "backfill"]


def test_a_compaction_whose_answer_is_lost_is_one(proxy):
    """The library alone takes its own commit for another's, and puts the same rows behind it."""
    table = proxy.place("compacted/rows")
    delta.ensure(table, SCHEMA)
    commit(table, 0)
    commit(table, 1)
    found = maintenance.delta_compaction(table)
    proxy.mishaps(["lost"] * 2)
    found.compact(target_bytes=maintenance.TARGET_BYTES)
    proxy.mishaps([])
    assert rows_of(table) == ["000", "001"]
    assert len(delta.files(table)) == 1


def test_a_lost_answer_that_cannot_be_looked_up_is_not_tried_again(proxy, monkeypatch):
    table = proxy.place("unknown/rows")
    delta.ensure(table, SCHEMA)
    files = written(table, "backfill")
    away = errors.Wait(errors.STORE_AWAY, "away")
    monkeypatch.setattr(log_writer, "_is_committed", lambda *_: (_ for _ in ()).throw(away))
    proxy.mishaps(["lost"])
    with pytest.raises(errors.Wait, match="FAIRLEAD_STORE_AWAY"):
        append_with_retry(table, files)
    assert rows_of(table) == ["backfill"]


def test_a_log_that_is_damaged_is_not_waited_for(store):
    table = store.place("damaged/rows")
    delta.ensure(table, SCHEMA)
    commit(table, 0)
    delta_table.forget(table)
    (store.content / table.key / "_delta_log" / f"{1:020}.json").write_text("junk")
    with pytest.raises(errors.Stop, match="FAIRLEAD_TABLE_UNFIT"):
        delta.state(table, "app")


def test_a_store_killed_between_commits_costs_no_row(tmp_path):
    """It is away, which is waited for, and comes back with everything it had answered."""
    with ObjectStore(tmp_path / "store") as store:
        table = store.place("killed/rows")
        delta.ensure(table, SCHEMA)
        for number in range(4):
            store.kill()
            with pytest.raises(errors.Wait, match="FAIRLEAD_STORE_AWAY"):
                batch(number).is_in(table)
            store.start()
            commit(table, number)
        assert rows_of(table) == ["000", "001", "002", "003"]


def test_a_commit_is_a_dozen_requests_however_long_the_log(store, proxy):
    """Of a table kept open by one writer: looking, committing, the file of the rows."""
    table = proxy.place("counted/rows")
    delta.ensure(table, SCHEMA)
    counts = []
    for number in range(2 * STORE_CHECKPOINT_COMMITS + 2):
        before = proxy.requests()
        commit(table, number)
        counts.append(proxy.requests() - before)
    # The first finds what the table is; twice a checkpoint of the log is written, beside it delta-rs looks around.
    assert sum(count > REQUESTS_MAX for count in counts) <= 5, counts
    assert sum(counts) <= 16 * len(counts), counts
    log = store.content / table.key / "_delta_log"
    assert (log / "_last_checkpoint").exists()


def test_behind_commits_of_others_the_log_is_read_as_far_as_ours_and_little_of_it_is_remembered(store, monkeypatch):
    table = store.place("others/rows")
    delta.ensure(table, SCHEMA)
    for number in range(25):
        commit(table, number)
    others = HISTORY_NEAR + 4
    for number in range(others):
        delta.append(table, written(table, f"other-{number}"), tables.UNNUMBERED)
    log_reader._store_entry.cache_clear()
    read: list[StorePath] = []
    asked = object_store.read

    def counted(path: StorePath) -> bytes:
        read.append(path)
        return asked(path)

    monkeypatch.setattr(object_store, "read", counted)
    assert delta.state(table, "app").batch == 24
    assert len(read) == others + 1
    kept = log_reader._store_entry.cache_info().maxsize
    assert kept is not None and kept * 200_000 < 64 * 1024 * 1024, "an entry of many topics is that large"


def test_credentials_come_from_the_environment_where_settings_say_nothing(store, environment):
    environment.setenv("AWS_ENDPOINT_URL", store.url)
    environment.setenv("AWS_REGION", REGION)
    environment.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    environment.setenv("AWS_SECRET_ACCESS_KEY", store.secret.read_text().strip())
    table = parse("s3://tables/environment/rows")
    object_store.probe(table)
    delta.ensure(table, SCHEMA)
    commit(table, 0)
    assert rows_of(table) == ["000"]
