"""What both stores decide alike; their promises are in the conformance suite."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.edges.held import config_map, held, put

from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.statuses import status_store
from fairlead_edge.objects.statuses.patch import PatchRefused, StatusPatch
from fairlead_edge.objects.statuses.reported import EdgeReportedStatus
from fairlead_edge.objects.statuses.status_store import STATUSES_BYTES_MAX, STATUSES_MAX
from fairlead_wire import message
from fairlead_wire.errors import FrameTooLarge, Malformed
from fairlead_wire.link import codec
from fairlead_wire.objects import digest


def test_there_is_room_for_so_much() -> None:
    status_store.check_room(STATUSES_MAX - 1, STATUSES_BYTES_MAX)
    for count, size in ((STATUSES_MAX, 0), (0, STATUSES_BYTES_MAX + 1)):
        with pytest.raises(PatchRefused) as caught:
            status_store.check_room(count, size)
        assert caught.value.status == 507 and caught.value.retry_after


def test_a_status_is_shown_on_its_own_object_alone() -> None:
    there = held(config_map("a"))
    kept = EdgeReportedStatus(uid="another", sequence=1, state="waiting", at=0.0, shares={})
    assert status_store.with_status(there, kept) is there
    assert status_store.outgoing(there, kept) is None


# ---- by which rules status may be reported, as the node knows them --------------------------------


def known(*rules: message.StatusRule) -> status_store.KnownStatusRules:
    content = msgspec.json.encode(rules)
    return status_store.read(content, digest.content_digest(content))


def rule(name: str = "shop", *, is_allowed: bool = True, **more: Any) -> message.StatusRule:
    return message.StatusRule(rule=name, kind="ConfigMap", allowed=is_allowed, **more)


def refusal(*rules: message.StatusRule, namespace: str = "shop", **labels: str) -> str:
    return status_store.refusal(known(*rules), "", "ConfigMap", namespace, labels)


def test_a_rule_that_covers_the_object_allows() -> None:
    assert refusal(rule()) == ""
    assert refusal(rule(namespaces=["shop"])) == ""
    assert refusal(rule(namespaces=["other"]))
    assert refusal(message.StatusRule(rule="a", group="apps", kind="ConfigMap", allowed=True))
    assert refusal(rule("a", is_allowed=False), rule("b")) == ""


@pytest.mark.parametrize(
    ("term", "labels", "fits"),
    [
        (message.LabelTerm("a", "In", ["1"]), {"a": "1"}, True),
        (message.LabelTerm("a", "In", ["1"]), {"a": "2"}, False),
        (message.LabelTerm("a", "In", ["1"]), {}, False),
        (message.LabelTerm("a", "NotIn", ["1"]), {}, True),
        (message.LabelTerm("a", "NotIn", ["1"]), {"a": "1"}, False),
        (message.LabelTerm("a", "Exists"), {"a": ""}, True),
        (message.LabelTerm("a", "Exists"), {}, False),
        (message.LabelTerm("a", "DoesNotExist"), {}, True),
        (message.LabelTerm("a", "DoesNotExist"), {"a": ""}, False),
    ],
)
def test_labels_are_read_as_kubernetes_reads_them(term: message.LabelTerm, labels: dict[str, str], fits: bool) -> None:
    assert (refusal(rule(labels=[term]), **labels) == "") is fits


def test_a_refusal_names_the_rule() -> None:
    assert "SyncRule shop sends it here without statusFromEdge: true" in refusal(rule(is_allowed=False))
    many = [rule(f"r{number}", is_allowed=False) for number in range(5)]
    assert "SyncRules r0, r1, r2, … send it here" in refusal(*many)
    assert "no SyncRule known here" in refusal()


def test_only_what_the_hub_said_is_believed() -> None:
    content = msgspec.json.encode([rule()])
    for wrong in (b"[]", b"nonsense"):
        with pytest.raises(Malformed):
            status_store.read(wrong, digest.content_digest(content))
    with pytest.raises(Malformed):
        status_store.read(b"{}", digest.content_digest(b"{}"))
    many = msgspec.json.encode([rule()] * (message.STATUS_RULES_MAX + 1))
    with pytest.raises(Malformed):
        status_store.read(many, digest.content_digest(many))
    assert status_store.read(b"", "") == status_store.KnownStatusRules()


def test_what_unpacks_to_too_much_is_refused() -> None:
    encoding, content = codec.pack(b" " * (message.STATUS_RULES_BYTES_MAX + 1))
    with pytest.raises(FrameTooLarge):
        status_store.unpacked(message.StatusRules(digest="d", encoding=encoding), content)


def test_kinds_are_reportable_where_a_rule_allows_some() -> None:
    assert status_store.any_of(known(rule()), "", "ConfigMap")
    assert not status_store.any_of(known(rule(is_allowed=False)), "", "ConfigMap")


# ---- the twin's own ways; its promises are in the conformance suite -------------------------------


async def test_a_disk_that_was_opened_again_goes_on_with_its_numbers() -> None:
    """So that an answer to a report from before settles nothing newer."""
    store = MemoryMetastore()
    await store.apply([put(config_map("a"))], now=0.0)
    rules = msgspec.json.encode([message.StatusRule(rule="r", kind="ConfigMap", allowed=True)])
    await store.statuses.replace_rules(rules, digest.content_digest(rules))
    kind = Kind(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)
    for number in range(2):
        asked = StatusPatch(operation="Update", manager="me", status={"n": number})
        await store.statuses.patch(("", "configmaps", "shop", "a"), "v1", kind, asked, 0.0)
        store = store.reopened(1)
    [line] = await store.statuses.lines()
    assert line.sequence == 2
