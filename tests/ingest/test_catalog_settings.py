"""The table [catalog] of a job's settings."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_ingest.settings import IngestSettings

JOB: dict[str, Any] = {
    "messaging_url": "http://127.0.0.1:1", "security": "insecure", "topics": ["a/t"], "table": "/data/rows",
    "checkpoint": "/c/rows", "table_format": "iceberg",
}  # fmt: skip


def wrong(**changes: Any) -> str:
    with pytest.raises(ValueError) as refused:
        IngestSettings.model_validate({**JOB, **changes})
    return str(refused.value)


def test_a_catalog_goes_where_it_is_needed_and_holds_no_secret() -> None:
    """Other formats of the same job have none."""
    settings = IngestSettings.model_validate(
        {**JOB, "catalog": {"type": "rest", "uri": "https://catalog:8181", "token_file": "/etc/token"}}
    )
    found = settings.catalog_of(None)
    assert found is not None and (found.type, found.namespace, found.token_file) == ("rest", "fairlead", "/etc/token")
    assert settings.catalog_of("delta") is None


def test_iceberg_needs_a_catalog() -> None:
    assert "catalog.uri: required with table_format" in wrong()


@pytest.mark.parametrize(
    ("catalog", "said"),
    [
        ({"uri": "postgresql://me:hush@db/x"}, "password_file"),
        ({"uri": "postgresql+psycopg://db/x?password=hush"}, "password_file"),
        ({"uri": "sqlite:////c.db", "oauth2_scope": "all"}, "oauth2_scope: belongs to"),
        ({"type": "rest", "uri": "https://c", "oauth2_scope": "a\nb"}, "oauth2_scope"),
        ({"uri": "sqlite:////c.db", "token_file": "/t"}, "token_file: belongs to a catalog of another type"),
        ({"type": "rest", "uri": "https://c", "password_file": "/p"}, "password_file: belongs to"),
        ({"uri": "sqlite:////c.db", "namespace": "a b"}, "namespace: must be letters"),
        ({"type": "glue", "uri": "https://c"}, "type"),
    ],
)
def test_what_does_not_fit_together_is_refused(catalog: dict[str, Any], said: str) -> None:
    """With its key."""
    found = wrong(catalog=catalog)
    assert said in found and "hush" not in found


def test_two_tables_of_one_name_in_one_namespace_are_refused() -> None:
    """In folders of their own they would not meet, in the catalog they would."""
    other = {"topics": ["b/t"], "table": "/other/rows", "checkpoint": "/c/other"}
    assert "pipelines[0].table" in wrong(catalog={"uri": "sqlite:////c.db"}, pipelines=[other])
    other["table"] = "/other/rows_gaps"
    assert "rows_gaps" in wrong(catalog={"uri": "sqlite:////c.db"}, pipelines=[other])


def test_a_name_that_no_catalog_takes_is_refused() -> None:
    assert "letters, digits" in wrong(catalog={"uri": "sqlite:////c.db"}, table="/data/my rows")
