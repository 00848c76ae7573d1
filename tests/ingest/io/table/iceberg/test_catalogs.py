"""Opening catalogs: REST services that misbehave, databases, and the files that hold their secrets."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.tables.iceberg_table import IcebergTable, refused

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import catalogs, compaction, file_io
from fairlead_ingest.io.table.iceberg.file_io import TableFiles
from fairlead_ingest.io.table.iceberg.secret_file import read_secret
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.store_path import FROM_ENVIRONMENT

TOKEN = b'{"access_token": "t", "token_type": "bearer", "expires_in": 60}'


def with_credential(folder: Path, uri: str, **more: Any) -> Catalog:
    (folder / "credential").write_text("job:hush-hush\n")
    return Catalog(type="rest", uri=uri, credential_file=str(folder / "credential"), **more)


def test_a_token_comes_from_its_file_and_is_in_no_sentence(serve, tmp_path):
    (tmp_path / "token").write_text("hush-hush\n")
    uri = serve(lambda _: (403, {}, b'{"error": {"message": "not hush-hush", "type": "x", "code": 403}}'))
    error = refused(Catalog(type="rest", uri=uri, token_file=str(tmp_path / "token")))
    assert error.code == errors.CATALOG_DENIED and "hush" not in str(error)


def test_what_a_service_says_of_itself_changes_nothing_of_how_files_are_read(serve):
    """A class to be loaded, other credentials, another key of the catalog's certificate."""
    taken = {"prefix": "plant", "rest-page-size": "7"}
    other = {"py-io-impl": "os.path", "fairlead.storage": "{}", "ssl": "x", "token": "t", "auth": {"type": "basic"}}
    said = {"defaults": {}, "overrides": {**taken, **{key: json.dumps(value) for key, value in other.items()}}}
    opened = catalogs.connect(
        Catalog(type="rest", uri=serve(lambda _: (200, {}, json.dumps(said).encode()))), FROM_ENVIRONMENT
    )
    assert taken.items() <= opened.properties.items()
    assert file_io.properties(FROM_ENVIRONMENT).items() <= opened.properties.items()
    assert not {"ssl", "token", "auth"} & set(opened.properties)


def test_a_service_that_names_a_way_in_the_clear_for_itself_is_refused(serve):
    said = b'{"defaults": {}, "overrides": {"uri": "http://elsewhere.example.com"}}'
    error = refused(Catalog(type="rest", uri=serve(lambda _: (200, {}, said))))
    assert error.code == errors.CATALOG_UNFIT and "the uri it returns must be https://" in str(error)


@pytest.mark.parametrize("status", [302, 307, 308])
def test_a_secret_is_not_sent_on_to_another_address(serve, asked, tmp_path, status):
    elsewhere = serve(lambda _: (200, {}, TOKEN))
    error = refused(with_credential(tmp_path, serve(lambda path: (status, {"Location": elsewhere + path}, b""))))
    assert error.code == errors.CATALOG_UNFIT and "redirects, which is not followed" in str(error)
    assert len(asked) == 1


def test_a_service_of_tokens_that_does_not_answer_is_not_waited_for_without_end(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(catalogs, "REQUEST_SECONDS", 0.2)
    over = threading.Event()

    def silent(_: str) -> tuple[int, dict[str, str], bytes]:
        over.wait(60)
        return 200, {}, TOKEN

    error = refused(with_credential(tmp_path, serve(silent)))
    over.set()
    assert isinstance(error, errors.Wait) and error.code == errors.CATALOG_AWAY


def test_a_scope_is_asked_for_where_it_is_set(serve, asked, tmp_path):
    """From the service of tokens that is named, else from the catalog itself."""
    tokens = serve(lambda _: (200, {}, TOKEN))
    uri = serve(lambda path: (200, {}, TOKEN if "oauth" in path else b'{"defaults": {}, "overrides": {}}'))
    catalogs.connect(with_credential(tmp_path, uri), FROM_ENVIRONMENT)
    assert asked[0][0] == "/v1/oauth/tokens" and "scope=catalog" in asked[0][1]
    asked.clear()
    named = with_credential(tmp_path, uri, oauth2_uri=f"{tokens}/token", oauth2_scope="PRINCIPAL_ROLE:ALL")
    catalogs.connect(named, FROM_ENVIRONMENT)
    assert asked[0][0] == "/token" and "scope=PRINCIPAL_ROLE%3AALL" in asked[0][1]
    assert "client_id=job&client_secret=hush-hush" in asked[0][1]


@pytest.mark.parametrize(
    ("uri", "said"), [("mysql+nodriver://host/db", "install the driver"), ("postgresql://h:x/db", "not a database URL")]
)
def test_an_address_that_nothing_can_take_says_why(uri, said):
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: .*{said}"):
        catalogs.connect(Catalog(type="sql", uri=uri), FROM_ENVIRONMENT)


def test_a_file_that_is_no_database_is_said(tmp_path):
    (tmp_path / "catalog.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(errors.Stop, match=errors.CATALOG_UNFIT):
        catalogs.connect(Catalog(type="sql", uri=f"sqlite:///{tmp_path}/catalog.db"), FROM_ENVIRONMENT)


def test_how_files_are_read_is_said_by_no_property_of_a_table(tmp_path):
    table = IcebergTable(tmp_path)
    with table.opened().transaction() as others:
        others.set_properties(
            {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO", "fairlead.storage": '{"endpoint_url": "http://other"}'}
        )
    found = catalogs.connect(table.catalog, FROM_ENVIRONMENT).load_table(("fairlead", "rows"))
    assert isinstance(found.io, TableFiles)
    assert "other" not in found.io.properties["fairlead.storage"]
    assert table.commit(0, 1) is True and table.numbers() == [1]


class Loaded:
    """What a hostile writer would have a job make."""

    def __init__(self, *_: object) -> None:
        raise AssertionError("it was loaded")


def test_code_that_a_property_of_a_table_names_is_not_loaded(tmp_path):
    table = IcebergTable(tmp_path)
    table.commit(0, 1)
    decided, files = table.decided(1, 2), table.written(2)
    table.rewrite("properties", {"write.py-location-provider.impl": f"{__name__}.Loaded"})
    said = f"{errors.TABLE_UNFIT}: the table's property write.py-location-provider.impl names code to load"
    with pytest.raises(errors.Stop, match=said):
        table.format.append(table.place, files, decided)  # type: ignore[arg-type]
    with pytest.raises(errors.Stop, match=said):
        table.commit(1, 2)
    with pytest.raises(errors.Stop, match=said):
        compaction.of(table.format, table.place)


def test_the_line_is_taken_without_what_editors_put_around_it(tmp_path):
    (tmp_path / "token").write_text("hush-hush\n")
    assert read_secret("token_file", str(tmp_path / "token")) == "hush-hush"
    assert read_secret("token_file", None) is None


@pytest.mark.parametrize("content", [b"two\nlines", b"", b"\n", b"hush\xff\xfe"])
def test_an_invalid_line_is_refused_without_quoting_it(tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(errors.Stop, match=f"{errors.BAD_OPTION}: .*token_file .*one line") as refused:
        read_secret("token_file", str(tmp_path / "token"))
    assert "hush" not in str(refused.value) and "lines" not in str(refused.value).replace("one line", "")


def test_a_file_that_is_not_there_is_named_with_its_key(tmp_path):
    with pytest.raises(errors.Stop, match=r"token_file .*none"):
        read_secret("token_file", str(tmp_path / "none"))
