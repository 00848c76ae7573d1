"""Who may say that a message is from whom."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_edge.outbox.authorship import FORBIDDEN, Author, module_of, stamped
from fairlead_edge.outbox.publishing import RefusalReason, Submission


def said(source: str, **system: str | None) -> Submission:
    return Submission(source=source, system_properties=dict(system), body_base64="")


def sign(submission: Submission, module: str = "filter") -> Submission | RefusalReason:
    return stamped(submission, module=module, node="edge-1", has_token=lambda name: name.lower() in ("filter", "pump"))


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("/messages/modules/filter/outputs/o", "filter"),
        ("/MESSAGES/Modules/filter", "filter"),
        ("/messages/modules", ""),
        ("/messages", ""),
        ("/twinChangeNotifications", ""),
    ],
)
def test_module_a_source_names(source: str, module: str) -> None:
    assert module_of(source) == module


@pytest.mark.parametrize(
    ("submission", "source", "device"),
    [
        (said("/messages/modules/filter/outputs/o"), "/messages/modules/filter/outputs/o", "edge-1"),
        (said("/messages/modules/FILTER/outputs/o"), "/messages/modules/filter/outputs/o", "edge-1"),
        (said("/messages/modules/filter", connectionmoduleid="Filter"), "/messages/modules/filter", "edge-1"),
        (said("/messages", ConnectionDeviceId="sensor-7"), "/messages", "sensor-7"),
    ],
)
def test_a_message_gets_the_stamp_of_its_module(submission: Submission, source: str, device: str) -> None:
    system = {**submission.system_properties, "contentType": "text/plain"}
    signed = sign(msgspec.structs.replace(submission, system_properties=system))
    assert isinstance(signed, Submission) and signed.source == source
    assert signed.system_properties == {
        "contentType": "text/plain",
        "connectionDeviceId": device,
        "connectionModuleId": "filter",
    }


@pytest.mark.parametrize(
    ("submission", "reason"),
    [
        (said("/messages/modules/pump/outputs/o"), "module filter may not publish as module pump"),
        (said("/messages/modules/other"), "module filter may not publish as module other"),
        (said("/messages/modules/filter", connectionModuleId="pump"), "may not publish as module pump"),
        (
            said("/messages/modules/filter", connectionDeviceId="sensor-7"),
            "must publish for the device sensor-7 with source",
        ),
        (said("/messages"), "name the device in connectionDeviceId"),
        (said("/messages", connectionDeviceId="edge-1"), "name the device in connectionDeviceId"),
        (said("/messages/other"), "its sources begin with /messages/modules/filter"),
        (said("/twinChangeNotifications"), "may not publish with source /twinChangeNotifications"),
    ],
)
def test_module_cannot_be_another(submission: Submission, reason: str) -> None:
    refused = sign(submission)
    assert isinstance(refused, RefusalReason) and refused.code == FORBIDDEN
    assert reason in refused.message


@pytest.mark.parametrize(
    "submission",
    [
        said("/messages/modules/filter/outputs/o"),
        said("/Messages/modules/FILTER"),
        said("/messages", connectionModuleId="Filter"),
        said("/messages/modules/other", CONNECTIONMODULEID="pump"),
    ],
)
def test_a_program_without_a_token_cannot_act_as_a_module_that_has_one(submission: Submission) -> None:
    refused = sign(submission, module="")
    assert isinstance(refused, RefusalReason) and refused.code == FORBIDDEN
    assert "has its own token" in refused.message


def test_program_without_a_token_may_be_what_has_none() -> None:
    submission = said("/messages/modules/other/outputs/o", connectionModuleId=None)
    assert sign(submission, module="") is submission
    author = Author()
    assert author.sign([submission, RefusalReason("bad_body", "no")]) == [submission, RefusalReason("bad_body", "no")]
    assert (author.default_source, author.own_key("k")) == ("", "k")


def test_keys_of_modules_are_their_own() -> None:
    one, other = Author(module="filter"), Author(module="pump")
    assert len({one.own_key("k"), other.own_key("k"), Author().own_key("k")}) == 3
    assert not one.own_key("k").isprintable()
    assert one.default_source == "/messages/modules/filter"
