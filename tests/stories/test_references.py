"""The generated pages of the reference are what the programs say today."""

from __future__ import annotations

import json
import os

import openapi_spec_validator
import pytest
from docs.reference import generated, openapi_tables


@pytest.mark.slow
def test_generated_files_are_up_to_date() -> None:
    """Remedy: `make docs`, or FAIRLEAD_REWRITE=1 with this test."""
    if os.environ.get("FAIRLEAD_REWRITE"):
        generated.write()
    differ = [path for path, text in generated.wanted() if not path.exists() or path.read_text() != text]
    named = [str(path.relative_to(generated.ROOT)) for path in differ]
    assert not named, f"not what the programs say: {named}; {generated.REMEDY}"


@pytest.mark.slow
@pytest.mark.parametrize("name", openapi_tables.DOCUMENTS)
def test_a_committed_document_is_openapi(name: str) -> None:
    """As a validator of others says, and with an operation id for each call of a generated client."""
    document = json.loads((openapi_tables.REFERENCE / f"{name}.openapi.json").read_text())
    openapi_spec_validator.validate(document)
    found = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]
    assert len(found) == len(set(found)) and all(each.isidentifier() for each in found)


@pytest.mark.parametrize("name", openapi_tables.DOCUMENTS)
def test_no_document_names_this_machine_or_a_secret(name: str) -> None:
    """They are answered without a token."""
    text = (openapi_tables.REFERENCE / f"{name}.openapi.json").read_text()
    assert "/home/" not in text and str(generated.ROOT) not in text
