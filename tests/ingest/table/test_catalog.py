"""What tables are called in a catalog, and addresses that cannot be one's."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_ingest.table import catalog
from fairlead_ingest.table.catalog import Catalog


def test_a_table_is_called_as_its_folder_in_its_namespace():
    found = Catalog(type="sql", uri="sqlite:////c.db", namespace="plant.north")
    assert catalog.identifier(found, Path("/data/rows_gaps")) == ("plant", "north", "rows_gaps")


@pytest.mark.parametrize(
    ("kind", "uri", "said"),
    [
        ("sql", "postgresql+psycopg://me:hush@host/db", "password_file"),
        ("rest", "https://me:hush@host", "password_file"),
        ("sql", "https://host", "must be sqlite:"),
        ("rest", "http://host:8181", "must be https://"),
        ("rest", "sqlite:////c.db", "must be https://"),
    ],
)
def test_an_address_that_cannot_be_a_catalogs_is_refused(kind, uri, said):
    with pytest.raises(ValueError) as refused:
        catalog.check_uri(kind, uri)
    assert said in str(refused.value) and "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "uri"),
    [
        ("sql", "sqlite:////c.db"),
        ("sql", "postgresql+psycopg://me@host/db"),
        ("sql", "mysql+pymysql://host/db"),
        ("rest", "https://polaris.example.com/api/catalog"),
        ("rest", "http://127.0.0.1:8181"),
    ],
)
def test_databases_and_services_with_catalogs(kind, uri):
    catalog.check_uri(kind, uri)


@pytest.mark.parametrize("name", ["a b", "a.b", "", "ä", "x" * 129])
def test_names_that_no_catalog_would_take(name):
    with pytest.raises(ValueError):
        catalog.check_table_name(name)


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a b"])
def test_namespaces_that_no_catalog_would_take(name):
    with pytest.raises(ValueError):
        catalog.check_namespace(name)
