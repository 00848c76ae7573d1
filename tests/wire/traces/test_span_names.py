"""Names without ids, attributes with them."""

from __future__ import annotations

from fairlead_wire.traces import span_names


def test_what_is_not_known_is_left_out() -> None:
    assert span_names.of_messages(3, operation="send") == {
        "messaging.system": "fairlead",
        "messaging.operation.type": "send",
        "messaging.batch.message_count": 3,
    }
    found = span_names.of_messages(1, "default/t", operation="receive", node="edge-1", stream="iothub")
    assert found["messaging.destination.name"] == "default/t"
    assert (found[span_names.NODE], found[span_names.STREAM]) == ("edge-1", "iothub")
