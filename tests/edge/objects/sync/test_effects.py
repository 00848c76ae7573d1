"""Effects are values: a driver may keep them and perform them later."""

from __future__ import annotations

from fairlead_edge.objects.metastore import StoreSummary
from fairlead_edge.objects.sync import events
from fairlead_edge.objects.sync.effects import Apply, Effect
from fairlead_edge.objects.sync.session import EdgeSession
from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

SUMMARY = StoreSummary(held=0, buckets=digest.Buckets(0))
WELCOME = message.Welcome(
    protocol=message.PROTOCOL,
    hub="hub-a",
    fence=5,
    session=1,
    keepalive_seconds=10.0,
    frame_bytes_max=codec.FRAME_BYTES_MAX,
    upstream_window=4,
)


def run(*, further: int) -> list[Effect]:
    """A session that gets one update, and while it is written ``further`` ones; what was wanted until the first."""
    core = EdgeSession(node="edge-1", agent="1", store_epoch=1, fence=0, now=0.0)
    wanted: list[Effect] = []
    for event in (
        events.Connected(),
        events.Summarised(SUMMARY),
        events.FrameReceived(codec.encode(WELCOME)),
        events.FencePersisted(),
    ):
        wanted += core.handle(event, 0.0)
    for id in range(1, 2 + further):
        header = message.Update(
            id=id, resource=f"api/v1/namespaces/shop/configmaps/{id}", uid=f"u-{id}", digest="0", resource_version="1"
        )
        effects = core.handle(events.FrameReceived(codec.encode(header, b"{}")), 0.0)
        wanted += effects if id == 1 else []
    return wanted


def test_what_comes_later_does_not_change_an_effect() -> None:
    """Further updates collect in the session, not in the batch that was handed out."""
    wanted = run(further=0)
    assert isinstance(wanted[-1], Apply) and len(wanted[-1].writes) == 1
    assert run(further=3) == wanted
