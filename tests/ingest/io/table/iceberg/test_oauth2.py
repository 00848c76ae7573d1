"""Iceberg tables in a REST catalog (Apache Iceberg's own) behind a service of tokens: ended, refused, away, new."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.tables.iceberg_table import IcebergTable, refused
from tests.support.tables.rest_catalog import RestCatalog
from tests.support.tables.token_front import TokenFront

from fairlead_ingest import errors

pytestmark = [pytest.mark.process, pytest.mark.verify]


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    with RestCatalog(tmp_path_factory.mktemp("catalog")) as running:
        yield running


@pytest.fixture
def front(behind: RestCatalog) -> Iterator[TokenFront]:
    with TokenFront(behind.port) as running:
        yield running


@pytest.fixture
def credential(front: TokenFront, tmp_path: Path) -> Path:
    file = tmp_path / "credential"
    file.write_text(f"job:{front.clients['job']}\n")
    return file


def settings(credential: Path, **more: Any) -> dict[str, Any]:
    return {"credential_file": str(credential), "namespace": uuid.uuid4().hex, **more}


def test_a_token_that_ends_while_a_job_runs_is_replaced_also_in_a_commit(front, credential, tmp_path):
    """What was asked with the old one was not done; it is asked again with the new one, and is in the table once."""
    table = IcebergTable(tmp_path, front.catalog(**settings(credential)))
    for batch in range(12):
        if batch % 3 == 0:
            front.end_tokens()
        if batch % 3 == 1:
            front.end_at[:] = ["/tables/"]
        assert table.commit(batch, batch) is True
    assert front.end_at == []
    assert front.refused == 8 <= front.given
    assert table.numbers() == list(range(12))
    assert table.format.state(table.place, "app").commit_sequence == 12


def test_a_secret_that_is_replaced_while_a_job_runs_is_read_again(front, credential, tmp_path):
    """Until it is in the file the catalog refuses the job, which waits for it a quarter of an hour."""
    table = IcebergTable(tmp_path, front.catalog(**settings(credential)))
    table.commit(0, 0)
    front.clients["job"] = "another"
    front.end_tokens()
    for _ in range(2):
        with pytest.raises(errors.Stop) as error:
            table.commit(1, 1)
        assert str(error.value).startswith(f"{errors.CATALOG_DENIED}: [catalog] {front.url}: invalid_client")
        assert "not-a-secret-of-anybody" not in str(error.value)
    credential.write_text("job:another\n")
    assert table.commit(1, 1) is True
    assert table.numbers() == [0, 1]


def test_a_service_of_tokens_that_is_away_is_felt_when_the_token_ends(front, credential, tmp_path):
    tokens = f"{front.url}/v1/oauth/tokens"
    given = settings(credential, oauth2_uri=tokens, oauth2_scope="PRINCIPAL_ROLE:ALL")
    table = IcebergTable(tmp_path, front.catalog(**given))
    front.is_away = True
    assert table.commit(0, 0) is True
    front.end_tokens()
    with pytest.raises(errors.Wait, match=f"{errors.CATALOG_AWAY}: .*, tokens from {tokens}"):
        table.commit(1, 1)
    front.is_away = False
    assert table.commit(1, 1) is True
    assert table.numbers() == [0, 1]


def test_a_token_in_a_file_is_read_again_when_it_is_refused(front, tmp_path):
    file = tmp_path / "token"
    file.write_text(front.token())
    table = IcebergTable(tmp_path, front.catalog(token_file=str(file), namespace=uuid.uuid4().hex))
    table.commit(0, 0)
    front.end_tokens()
    with pytest.raises(errors.Stop, match=f"{errors.CATALOG_DENIED}: .*the token has ended"):
        table.commit(1, 1)
    file.write_text(front.token())
    assert table.commit(1, 1) is True
    assert table.numbers() == [0, 1]


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        ("job:wrong-and-secret", {}, "invalid_client"),
        ("stranger:not-a-secret-of-anybody", {}, "invalid_client"),
        ("no-colon-and-secret", {}, "invalid_client"),
        ("job:not-a-secret-of-anybody", {"oauth2_scope": "everything"}, "invalid_scope: no such scope"),
    ],
)
def test_what_is_wrong_is_one_sentence_without_the_secret(front, credential, content, more, said):
    credential.write_text(content)
    error = refused(front.catalog(**settings(credential, **more)))
    assert error.code == errors.CATALOG_DENIED and said in str(error)
    assert "secret" not in str(error).replace("not the secret: ", "")
    assert "oauth2_scope" in str(error)


def test_a_catalog_that_wants_a_token_and_is_given_none_says_so(front):
    error = refused(front.catalog())
    assert error.code == errors.CATALOG_DENIED and "the token has ended" in str(error)
