"""In which Pod the Lease's holder runs: when the API server has that Pod no more, its successor need not wait.

A Pod that was deleted by force takes its credentials with it, so its hub could not give the Lease back; and a Pod of a
Deployment is followed by one with another name, which does not take over at once as the same Pod does.  As with a
StatefulSet, that the Pod is not there any more is the word of the kubelet, or of the person who deleted it by force,
that it has ended.  Where that was wrong, the numbers in the Lease and in records decide, as for a Lease that ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

ANNOTATION = "fairlead.dev/holder-pod"
ENDED_PHASES = frozenset(["Succeeded", "Failed"])
VARIABLES = ("POD_NAMESPACE", "POD_NAME", "POD_UID")
"""What the chart sets from the Pod's own fields."""
TEXT_CHARS_MAX = 2048


class HolderPod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace: str
    name: str
    uid: str
    """Another Pod of the same name is another Pod."""


class _Written(msgspec.Struct, frozen=True):
    identity: str
    """Of the holder who wrote it: a hub that does not know the annotation leaves the last one's in its place."""
    pod: HolderPod


def own(environ: Mapping[str, str]) -> HolderPod | None:
    """The Pod that this process runs in; None where the variables do not say."""
    namespace, name, uid = (environ.get(variable, "") for variable in VARIABLES)
    return HolderPod(namespace, name, uid) if namespace and name and uid else None


def written(pod: HolderPod | None, identity: str) -> dict[str, str]:
    """Annotations of the Lease that ``identity`` holds."""
    return {ANNOTATION: msgspec.json.encode(_Written(identity, pod)).decode()} if pod is not None else {}


def read(annotations: Mapping[str, Any], identity: str) -> HolderPod | None:
    """The Pod of the holder ``identity``; None where nothing, or nothing that makes sense, is said of it."""
    text = annotations.get(ANNOTATION)
    if not isinstance(text, str) or len(text) > TEXT_CHARS_MAX:
        return None
    try:
        found = msgspec.json.decode(text, type=_Written)
    except msgspec.DecodeError:
        return None
    return found.pod if found.identity == identity and all(msgspec.structs.astuple(found.pod)) else None


def has_ended(pod: HolderPod, there: Mapping[str, Any] | None) -> bool:
    """``there``: what the API server has under this name; None: nothing."""
    if there is None:
        return True
    metadata, status = there.get("metadata"), there.get("status")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if not isinstance(uid, str) or not uid:
        return False
    return uid != pod.uid or (isinstance(status, dict) and status.get("phase") in ENDED_PHASES)
