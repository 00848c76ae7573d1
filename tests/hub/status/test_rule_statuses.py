"""Statuses of SyncRules and EdgeRoutes: written when they change, never when it stands there already."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.hubs.live import ROUTES

from fairlead_hub.cluster import sync_rule as rules
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.sync_rule import SpecCheck
from fairlead_hub.status import status_cache
from fairlead_hub.status.rule_statuses import CHECKS_SPARE
from fairlead_wire import message


@pytest.fixture
def core() -> Core:
    return Core("edge-1").rule(CONFIG_MAPS)


VERSIONS = itertools.count(1)


def stands(core: Core, name: str, collection: str = "syncrules", **status: Any) -> None:
    """The watch brought this object."""
    observed = status_cache.Observed(version=str(next(VERSIONS)), generation=1, status=status, head={})
    core.hub.rule_statuses.observed(collection, name, observed)


def wanted(core: Core, name: str, collection: str = "syncrules") -> status_cache.Status | None:
    pending = core.hub.status_cache.pending((collection, "", name))
    observed = core.hub.status_cache.observed.get((collection, "", name))
    return pending.status(observed) if isinstance(pending, status_cache.StatusDocument) else None


def test_a_rule_says_what_it_matches(core: Core) -> None:
    """Nodes and objects."""
    core.put("a")
    stands(core, "r")
    core.hub.rule_statuses.report(0.0)
    status = wanted(core, "r")
    assert status is not None
    assert (status["matchedNodes"], status["matchedObjects"]) == (1, 1)


def test_what_stands_there_already_is_not_written(core: Core) -> None:
    """Written when something is new."""
    stands(core, "r")
    core.hub.rule_statuses.report(0.0)
    status = wanted(core, "r")
    assert status is not None
    stands(core, "r", **status)
    core.hub.rule_statuses.report(0.0)
    assert wanted(core, "r") is None
    core.put("a")
    core.hub.rule_statuses.report(0.0)
    assert wanted(core, "r") is not None


def test_what_older_definitions_do_not_keep_is_not_written_again_and_again(core: Core) -> None:
    """Helm upgrades no definitions: the API server prunes fields they do not know, and answers that all is well."""
    name: status_cache.Name = ("syncrules", "", "r")

    def written(version: str) -> None:
        """All but the new fields was kept; the version stays when nothing changed."""
        [document] = [write.wanted for write in core.hub.status_cache.take(0.0)]
        assert isinstance(document, status_cache.StatusDocument)
        kept = {key: value for key, value in document.status(None).items() if key not in ("message", "lastReadable")}
        core.hub.status_cache.wrote(
            document, status_cache.Observed(version=version, generation=1, status=kept, head={})
        )

    stands(core, "r")
    core.hub.rule_statuses.report(0.0)
    written("9002")
    core.hub.rule_statuses.changed("syncrules", "r")
    core.hub.rule_statuses.report(0.0)
    written("9002")
    for _ in range(5):
        core.hub.rule_statuses.changed("syncrules", "r")
        core.hub.rule_statuses.report(0.0)
        assert core.hub.status_cache.pending(name) is None
    core.put("a")
    core.hub.rule_statuses.report(0.0)
    assert core.hub.status_cache.pending(name) is not None, "news is written"


def test_a_broken_object_says_why(core: Core) -> None:
    """Also when nothing of it could be read."""
    core.hub.cluster.break_rule(
        rules.unreadable({"metadata": {"name": "bad"}}, "spec.resources: at least one entry is needed"), 0.0
    )
    stands(core, "bad")
    core.hub.rule_statuses.report(0.0)
    status = wanted(core, "bad")
    assert status is not None
    assert "spec.resources" in str(status["conditions"])


def test_an_object_the_watch_has_not_brought_is_not_written(core: Core) -> None:
    """Its status is written on what is there, never on a guess."""
    core.hub.rule_statuses.report(0.0)
    core.hub.rule_statuses.changed("syncrules", "unknown")
    core.hub.rule_statuses.report(0.0)
    assert len(core.hub.status_cache) == 0


def test_routes_hear_from_the_nodes_that_compiled_them(core: Core) -> None:
    """Errors with their position reach the one who wrote the route."""
    core.put("main", ROUTES, namespace="", spec={"routes": {"r": {"route": "FROM"}}})
    stands(core, "main", "edgeroutes")
    error = message.RouteError(route="r", message="expected a source", line=1, column=5, end_column=6)
    report = message.RoutesStatus(uid="uid-main", resource_version="1", accepted=[], errors=[error])
    edge = core.served()
    edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=1, routes={"main": report})))
    core.hub.rule_statuses.report(0.0)
    status = wanted(core, "main", "edgeroutes")
    assert status is not None
    assert status["failingNodes"][0]["errors"][0]["column"] == 5
    assert status["acceptedNodes"] == 0


def test_who_lags_behind_is_reported_with_the_reason(core: Core) -> None:
    """Away, just back, on its way, silent about the newest content, withheld, parked; then it is current."""

    def lag() -> str:
        core.hub.rule_statuses.changed("edgeroutes", "main")
        core.hub.node_status.changed("edge-1")
        core.hub.rule_statuses.report(0.0)
        status = wanted(core, "main", "edgeroutes")
        assert status is not None and status["laggingNodes"] == (1 if status["message"] else 0)
        return str(status["message"]).removeprefix("not current: edge-1: ")

    def said(one: LiveObject, digest: str) -> None:
        report = message.RoutesStatus(uid=one.uid, resource_version="1", accepted=["r"], errors=[], digest=digest)
        edge.say(message.Status(), msgspec.json.encode(message.EdgeStatus(held=1, routes={"main": report})))

    up = {"r": "FROM /* INTO $upstream"}
    one = core.put("main", ROUTES, namespace="", spec={"routes": up})
    stands(core, "main", "edgeroutes")
    assert lag() == "the node is away"
    edge = core.connect()
    assert lag() == "the node has just returned"
    sent = edge.sent()
    assert lag() == "version 1 is not delivered: on its way"
    edge.ack(*sent)
    assert lag() == "the node has not reported what it makes of version 1"
    said(one, "of an older version")
    assert lag() == "the node has not reported what it makes of version 1"
    said(one, one.digest)
    assert lag() == ""
    topic = {"r": {"route": up["r"], "topic": "shop/alarms"}}
    core.put("main", ROUTES, namespace="", version="2", spec={"routes": topic})
    edge.sent()
    assert lag().startswith("version 2 is not delivered: topics it names are not in EdgeNode")
    core.put("main", ROUTES, namespace="", version="3", spec={"routes": {**up, "s": up["r"]}})
    for update in edge.sent():
        edge.nack(update, code="too_large", reason="over the limit")
    assert lag() == "version 3 is not delivered: parked, too_large: over the limit"


def conditions(status: status_cache.Status | None) -> dict[str, tuple[str, str]]:
    assert status is not None
    return {each["type"]: (each["status"], each["message"]) for each in status["conditions"]}


def test_how_a_handler_found_an_object_is_reported(core: Core) -> None:
    """Of the generation that stands there, and kept over a restart of the hub until it is looked at again."""

    def checked(generation: int, mistakes: str) -> None:
        core.hub.rule_statuses.checked(
            SpecCheck(collection="syncrules", name="r", uid="u", generation=generation, mistakes=mistakes)
        )
        core.hub.rule_statuses.report(core.now)

    stands(core, "r")
    core.hub.rule_statuses.report(core.now)
    assert "Valid" not in conditions(wanted(core, "r")), "it was not looked at yet"
    checked(1, "")
    assert conditions(wanted(core, "r"))["Valid"] == ("True", "the object matches its definition")
    checked(1, "spec.priority: why")
    status = wanted(core, "r")
    assert conditions(status)["Valid"] == ("False", "spec.priority: why") and status is not None
    checked(2, "")
    stands(core, "r", **status)
    core.hub.rule_statuses.report(core.now)
    assert wanted(core, "r") is None, "what was said of this generation stands until the other one is seen"


def test_checks_of_objects_that_are_gone_are_forgotten(core: Core) -> None:
    """Also when the handler was later than the watch."""
    stands(core, "r")
    for number in range(3 * CHECKS_SPARE):
        check = SpecCheck(collection="syncrules", name=f"late-{number}", uid="u", generation=1, mistakes="")
        core.hub.rule_statuses.checked(check)
    assert len(core.hub.rule_statuses.checks) <= CHECKS_SPARE + 10
    core.hub.rule_statuses.checked(SpecCheck(collection="syncrules", name="r", uid="u", generation=1, mistakes=""))
    core.hub.rule_statuses.vanished("syncrules", "r")
    assert ("syncrules", "", "r") not in core.hub.rule_statuses.checks
