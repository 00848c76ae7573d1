"""Codes of both levels."""

from __future__ import annotations

from fairlead_edge.mqtt import reasons
from fairlead_edge.mqtt.reasons import Code


def test_every_refusal_has_a_return_code_in_3() -> None:
    codes = {code: reasons.connack_3(code) for code in Code}
    assert codes[Code.SUCCESS] == 0
    assert all(1 <= found <= 5 for code, found in codes.items() if code is not Code.SUCCESS)
    assert codes[Code.SERVER_BUSY] == 3


def test_refused_messages_have_codes() -> None:
    assert reasons.of_message("forbidden_source") is Code.NOT_AUTHORIZED
    assert reasons.of_message("too_large") is Code.PACKET_TOO_LARGE
    assert reasons.of_message("anything") is Code.IMPLEMENTATION_SPECIFIC_ERROR


def test_labels_are_lower_case() -> None:
    assert Code.TOPIC_NAME_INVALID.label == "topic_name_invalid"
