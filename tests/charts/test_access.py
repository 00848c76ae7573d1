"""What the chart grants in messaging: its own rooms what they need, others what the values say."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.kube.charts import CHARTS, NAMESPACE, RELEASE, helm_with
from tests.support.topics.messaging_access import Guarded, guarded

from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.client.errors import NotAllowed
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.connections import Tls
from fairlead_messaging.server import access
from fairlead_messaging.server.access import Grants, Identity
from fairlead_messaging.server.settings import AccessModel, access_table

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """messaging.toml as it is rendered."""
    text = helm_with(values, "template", RELEASE, str(CHARTS / "fairlead"), "--namespace", NAMESPACE)
    found = [each for each in yaml.safe_load_all(text) if each and "messaging.toml" in each.get("data", {})]
    return tomllib.loads(found[0]["data"]["messaging.toml"])


def grants(values: Mapping[str, Any], name: str) -> Grants:
    """Of one subject, as messaging reads the table."""
    table = access_table([AccessModel.model_validate(each) for each in settings(values)["access"]])
    return table.of(Identity((access.parse_subject(name),)))


def test_the_hub_may_not_pose_as_fairlead_itself() -> None:
    """Of `system` it has its events, and it reads what goes to modules; it makes topics and deletes none."""
    hub = grants({}, "fl-fairlead-hub")
    assert hub.may(Verb.PUBLISH, "default", "telemetry") and hub.may(Verb.CREATE, "plant", "alarms")
    assert hub.may(Verb.PUBLISH, "system", "events") and not hub.may(Verb.PUBLISH, "system", "audit")
    assert hub.may(Verb.CONSUME, "system", "inputs-edge-1") and not hub.may_some(Verb.ADMINISTER)
    assert not any(hub.may(Verb.CONSUME, *topic) for topic in (("default", "telemetry"), ("system", "events")))


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


def test_without_values_for_it_the_rooms_have_what_they_need() -> None:
    """As with `helm upgrade --reuse-values` of a release that had none."""
    assert settings({"messaging": {"access": None}})["access"] == settings({})["access"]


async def test_every_room_can_do_its_work_with_what_it_is_granted(tmp_path: Path) -> None:
    """Each call that hub, ingest and helm test make, over mutual TLS with the names that the chart gives them."""
    async with guarded(tmp_path, access=settings({})["access"]) as service:
        hub, ingest, test = (client(service, f"fl-fairlead-{room}") for room in ("hub", "ingest", "test"))
        async with hub, ingest, test:
            for topic in ("telemetry", "events"):
                namespace = "system" if topic == "events" else "default"
                await hub.create_topic(namespace, topic)
                await hub.publish(namespace, topic, [b"1"])
            # The console's page of topics.
            assert [(each, await hub.topics(each)) for each in await hub.namespaces()] == [
                ("default", ["telemetry"]), ("system", ["events"])
            ]  # fmt: skip
            offset = await hub.offsets("default", "telemetry", "latest")
            assert await hub.readers("default", "telemetry") == []
            # What ingest reads, notes and says.
            assert (await ingest.plan("default", "telemetry", after="")).rows == 1
            assert [each.payload async for each in ingest.messages("default", "telemetry")] == [b"1"]
            await ingest.note_reader("default", "telemetry", "ingest", position=offset.stable or "")
            await ingest.publish("system", "events", [b"2"])
            for denied in (
                hub.delete_topic("default", "telemetry"),
                hub.publish("system", "audit", [b"forged"]),
                ingest.publish("default", "telemetry", [b"forged"]),
                test.publish("default", "telemetry", [b"forged"]),
            ):
                with pytest.raises(NotAllowed):
                    await denied
            await test.create_topic("helm-test", "t")
            await test.publish("helm-test", "t", [b"3"])
            assert [each.payload async for each in test.messages("helm-test", "t")] == [b"3"]
            await test.delete_topic("helm-test", "t")


def client(service: Guarded, name: str) -> AsyncClient:
    """That shows a certificate of this name."""
    pair = service.authority.issue(name)
    tls = Tls(ca=str(service.authority.certificate), cert=str(pair.certificate), key=str(pair.key))
    return AsyncClient(service.url, tls=tls)
