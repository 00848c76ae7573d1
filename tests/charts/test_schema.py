"""The charts' `config` is checked by schemas made from the programs' settings, and they are the settings of today."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from charts import schema
from fairlead_hub.settings import HubSettings as HubSettings
from fairlead_ingest.settings import IngestSettings as IngestSettings

pytestmark = pytest.mark.process


@pytest.mark.parametrize("chart", schema.PLACES)
def test_it_is_what_the_settings_say(chart: str) -> None:
    """A key added to a program is a key of its chart."""
    there = (schema.CHARTS / chart / "values.schema.json").read_text()
    assert there == schema.wanted(chart), "run: .venv/bin/python charts/schema.py"


def test_every_key_may_stand_there_and_none_must() -> None:
    """The chart fills in what the program needs; what the program does not know is refused."""
    hub = Draft202012Validator(schema.of(HubSettings))
    Draft202012Validator.check_schema(schema.of(HubSettings))
    assert hub.is_valid({}) and hub.is_valid({"record": {"flush_seconds": 1}, "kubeconfig": None})
    assert not hub.is_valid({"lisen": "x"}) and not hub.is_valid({"record": {"flush_second": 1}})


def test_what_is_required_inside_a_list_stays_so() -> None:
    """A pipeline without a table is none."""
    ingest = Draft202012Validator(schema.of(IngestSettings))
    assert ingest.is_valid({"pipelines": [{"topics": ["a/b"], "table": "t", "checkpoint": "c"}]})
    assert not ingest.is_valid({"pipelines": [{"topics": ["a/b"]}]})
