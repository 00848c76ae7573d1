"""Our own documents: written behind, answered, and seen again by the watch."""

from tests.support.hubs.live import CONFIG_MAP

KIND = CONFIG_MAP.group_kind


def test_a_record_is_written_for_each_ack_and_none_on_the_send_path(core):
    """The book fills behind the answers."""
    core.put("a")
    edge = core.connect()
    [update] = edge.sent()
    assert len(core.hub.status_cache) == 0
    edge.ack(update)
    assert len(core.hub.status_cache) == 1
    assert core.hub.counts.acks == 1
