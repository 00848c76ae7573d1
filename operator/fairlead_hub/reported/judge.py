"""May this node say this of this object?  Its word is worth no more than the rules that placed the object there."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.placement import Placement
from fairlead_wire import message
from fairlead_wire.errors import FrameTooLarge, Malformed
from fairlead_wire.link import codec, peer_json
from fairlead_wire.objects import resource

STARTING_RETRY_SECONDS = 2.0
_status: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class ReportAccepted(msgspec.Struct, frozen=True):
    """Write this status on this object."""

    live: LiveObject
    status: dict[str, Any]


class ReportRefused(msgspec.Struct, frozen=True):
    """``live`` where the object is the node's business; then people are told on the object."""

    nack: message.Nack
    live: LiveObject | None = None


def judge(placement: Placement, node: str, report: message.Report, content: bytes) -> ReportAccepted | ReportRefused:
    """``not_synced`` comes first: nothing is refused for good by what is not listed yet."""
    try:
        key = resource.parse(report.resource).key
    except Malformed as error:
        return _never(report, "malformed", str(error))
    if why := placement.listed.not_synced(node):
        return _later(report, "starting", why, STARTING_RETRY_SECONDS)
    live = placement.object_cache.get(key)
    if live is None:
        return _never(report, "not_found", f"{report.resource} does not exist, or no rule sends its kind")
    if placement.desired(node, live) is None:
        return _never(report, "not_placed", f"no rule sends {report.resource} to node {node}")
    if live.uid != report.uid:
        reason = f"{report.resource} was made anew: its UID is {live.uid}, the status is of {report.uid}"
        return _never(report, "uid_changed", reason)
    if not placement.takes_status(node, live):
        reason = f"no rule that sends {report.resource} to node {node} has statusFromEdge: true"
        return _never(report, "not_allowed", reason, live)
    if live.path != report.resource:
        return _never(report, "other_version", f"the hub knows it as {live.path}", live)
    try:
        text = codec.unpack(report.encoding, content, message.STATUS_BYTES_MAX)
        if codec.nesting(text) > codec.NESTING_MAX:
            raise Malformed(f"nested deeper than {codec.NESTING_MAX} levels")
        return ReportAccepted(live, peer_json.decode(_status, text))
    except FrameTooLarge as error:
        return _never(report, "too_large", str(error), live)
    except Malformed as error:
        return _never(report, "malformed", str(error), live)


def _never(report: message.Report, code: str, reason: str, live: LiveObject | None = None) -> ReportRefused:
    return ReportRefused(never(report, code, reason), live)


def never(report: message.Report, code: str, reason: str) -> message.Nack:
    """The same again would be refused again."""
    return message.Nack(parent_id=report.id, code=code, reason=reason[: message.REASON_CHARS_MAX], permanent=True)


def later(
    report: message.Report, code: str, reason: str, seconds: float | None, *, all_of_them: bool = False
) -> message.Nack:
    """Not now; ``all_of_them``: nor would any other be."""
    return message.Nack(
        parent_id=report.id, code=code, reason=reason[: message.REASON_CHARS_MAX], retry_after=seconds,
        scope="hub" if all_of_them else "stream",
    )  # fmt: skip


def _later(report: message.Report, code: str, reason: str, seconds: float) -> ReportRefused:
    return ReportRefused(later(report, code, reason, seconds))
