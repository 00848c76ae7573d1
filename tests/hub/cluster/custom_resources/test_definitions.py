"""The files under crds/ and in the chart are what the models say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml

from fairlead_hub.cluster.custom_resources import definitions

ROOT = Path(__file__).resolve().parents[4]


def _program():
    found = importlib.util.spec_from_file_location("definitions_program", ROOT / "operator" / "definitions.py")
    assert found is not None and found.loader is not None
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


PROGRAM = _program()


@pytest.mark.parametrize("folder", PROGRAM.FOLDERS, ids=lambda folder: folder.parent.name)
def test_the_files_are_made_from_the_models(folder: Path) -> None:
    """After a change of either."""
    wanted = dict(PROGRAM.wanted())
    assert {path.name for path in folder.glob("*.yaml")} == wanted.keys()
    for name, text in wanted.items():
        assert (folder / name).read_text() == text, "run: .venv/bin/python operator/definitions.py"


@pytest.mark.parametrize("one", definitions.ALL, ids=lambda one: one.kind)
def test_every_field_is_explained(one: definitions.ResourceDefinition) -> None:
    """``kubectl explain`` prints the descriptions; only what has a new name needs none."""

    def bare(schema, path):
        for name, each in schema.get("properties", {}).items():
            below = each.get("items", each)
            if not each.get("description") and path:
                yield f"{path}.{name}"
            yield from bare(below, f"{path}.{name}" if path else name)

    schema = one.document()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found = [path for path in bare(schema, "") if not path.startswith("metadata")]
    assert found == []


@pytest.mark.slow
def test_the_text_says_what_the_document_says() -> None:
    """Long rules and messages are folded."""
    for one, (_, text) in zip(definitions.ALL, PROGRAM.wanted(), strict=True):
        assert yaml.safe_load(text) == one.document()
