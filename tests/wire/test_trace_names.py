"""Names without ids, attributes with them."""

from __future__ import annotations

from fairlead_wire import trace_names


def test_what_is_not_known_is_left_out() -> None:
    assert trace_names.of_messages(3, operation="send") == {
        "messaging.system": "fairlead",
        "messaging.operation.type": "send",
        "messaging.batch.message_count": 3,
    }
    found = trace_names.of_messages(1, "default/t", operation="receive", node="edge-1", stream="iothub")
    assert found["messaging.destination.name"] == "default/t"
    assert (found[trace_names.NODE], found[trace_names.STREAM]) == ("edge-1", "iothub")
