"""What the chart grants in messaging: its own rooms what they need, others what the values say."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from tests.support.charts import CHARTS, NAMESPACE, RELEASE, helm_with

from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server.access import access_model, subject
from fairlead_messaging.server.access.access_model import AccessModel
from fairlead_messaging.server.access.access_table import Grants
from fairlead_messaging.server.access.subject import Identity

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """messaging.toml as it is rendered."""
    text = helm_with(values, "template", RELEASE, str(CHARTS / "fairlead"), "--namespace", NAMESPACE)
    found = [each for each in yaml.safe_load_all(text) if each and "messaging.toml" in each.get("data", {})]
    return tomllib.loads(found[0]["data"]["messaging.toml"])


def grants(values: Mapping[str, Any], name: str) -> Grants:
    """Of one subject, as messaging reads the table."""
    table = access_model.table([AccessModel.model_validate(each) for each in settings(values)["access"]])
    return table.of(Identity((subject.parse(name),)))


def test_the_hub_may_not_pose_as_fairlead_itself() -> None:
    """Of `system` it has the topic of its events; it makes topics and deletes none."""
    hub = grants({}, "fl-fairlead-hub")
    assert hub.may(Verb.PUBLISH, "default", "telemetry") and hub.may(Verb.CREATE, "plant", "alarms")
    assert hub.may(Verb.PUBLISH, "system", "events") and not hub.may(Verb.PUBLISH, "system", "audit")
    assert not any(hub.may_some(verb) for verb in (Verb.ADMINISTER, Verb.CONSUME))


def test_ingest_reads_its_own_topics() -> None:
    """Those of its pipelines, too."""
    pipeline = {"topics": ["plant/alarms"], "table": "/data/a", "checkpoint": "/data/b"}
    values = {"ingest": {"topics": ["shop/sales"], "config": {"pipelines": [pipeline]}}}
    ingest = grants(values, "fl-fairlead-ingest")
    assert ingest.may(Verb.CONSUME, "shop", "sales") and ingest.may(Verb.CONSUME, "plant", "alarms")
    assert ingest.may(Verb.PUBLISH, "system", "events")
    assert not ingest.may(Verb.CONSUME, "shop", "staff") and not ingest.may(Verb.PUBLISH, "shop", "sales")


def test_others_have_what_the_values_say() -> None:
    """And the rooms may be called otherwise."""
    more = [{"subject": "serviceaccount:shop:till", "verbs": ["publish"], "topics": ["shop/*"]}]
    values = {"messaging": {"access": {"hubSubject": "hub.example.com", "more": more}}}
    assert grants(values, "serviceaccount:shop:till").may(Verb.PUBLISH, "shop", "sales")
    assert grants(values, "hub.example.com") and not grants(values, "fl-fairlead-hub")


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ({}, True),
        ({"certificates": {"source": "existing"}}, False),
        ({"certificates": {"source": "existing"}, "messaging": {"access": {"enabled": True}}}, True),
        ({"messaging": {"access": {"enabled": False}}}, False),
        ({"messaging": {"config": {"clients": ["fl-fairlead-hub"]}}}, False),
        ({"messaging": {"access": None}}, False),
    ],
)
def test_an_upgrade_locks_no_one_out(values: Mapping[str, Any], written: bool) -> None:
    """Where the names are not known, or who may ask is said in the older way, or values of before are reused."""
    assert ("access" in settings(values)) is written
