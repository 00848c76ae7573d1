"""What a catalog answers is a sentence with its remedy, and holds no secret."""

from __future__ import annotations

import errno
import sqlite3

import pytest
from pyiceberg import exceptions
from sqlalchemy.exc import OperationalError, ProgrammingError
from tests.support.tables.iceberg_table import refused

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import catalogs
from fairlead_ingest.table.catalog import Catalog


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, b'{"error": {"message": "no", "type": "NotAuthorized", "code": 401}}', errors.CATALOG_DENIED),
        (403, b'{"error": {"message": "no", "type": "Forbidden", "code": 403}}', errors.CATALOG_DENIED),
        (404, b'{"error": {"message": "no warehouse", "type": "NotFound", "code": 404}}', errors.CATALOG_UNFIT),
        (200, b"<html>a page</html>", errors.CATALOG_UNFIT),
        (500, b"oops", errors.CATALOG_AWAY),
        (501, b"", errors.CATALOG_UNFIT),
        (503, b"", errors.CATALOG_AWAY),
    ],
)
def test_what_a_service_answers_is_waited_for_or_corrected(serve, status, body, code):
    """With its address, so that one knows which setting to look at."""
    uri = serve(lambda _: (status, {}, body))
    error = refused(Catalog(type="rest", uri=uri, warehouse="plant"))
    assert str(error).startswith(f"{code}: [catalog] {uri} (plant): ")


def test_a_service_that_is_not_there_is_waited_for():
    error = refused(Catalog(type="rest", uri="http://127.0.0.1:9"))
    assert isinstance(error, errors.Wait) and error.code == errors.CATALOG_AWAY


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file"), errors.TABLE_UNFIT),
        (OSError(errno.ENOSPC, "No space left on device"), errors.DISK_FULL),
        (OperationalError("insert", {}, sqlite3.OperationalError("database or disk is full")), errors.DISK_FULL),
    ],
)
def test_what_the_disk_says_is_not_taken_for_the_catalogs_word(error, code):
    explained = catalogs.explain(Catalog(type="sql", uri="sqlite:////catalog.db"), error)
    assert str(explained).startswith(code) and "[catalog]" not in str(explained)


def test_a_secret_that_a_service_sends_back_is_in_no_sentence(tmp_path):
    secret = tmp_path / "credential"
    secret.write_text("job:hush hush/%\n")
    catalog = Catalog(type="rest", uri="https://catalog", credential_file=str(secret))
    for echo in ("client_secret=hush+hush%2F%25", "client_secret=hush%20hush%2F%25", "job:hush hush/%"):
        explained = catalogs.explain(catalog, exceptions.OAuthError(f"bad: {echo}"))
        assert str(explained).startswith(errors.CATALOG_DENIED) and "hush" not in str(explained)


def test_a_code_of_the_database_is_understood_in_any_language():
    class Refused(Exception):
        sqlstate = "42501"

    error = ProgrammingError("select 1", {}, Refused("keine Berechtigung"))
    explained = catalogs.explain(Catalog(type="sql", uri="postgresql+psycopg://db/x"), error)
    assert str(explained).startswith(errors.CATALOG_DENIED) and "keine Berechtigung" in str(explained)
