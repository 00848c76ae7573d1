"""Kinds of objects, for discovery.

The kind of an object is in its content, its plural and scope are in its path.  The built-in kinds and their short names
are listed here, so that ``kubectl get cm,po`` works and an empty node answers "No resources found"; Events, too,
because ``kubectl describe`` lists those of every object.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_wire.objects import api_group


class Kind(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One served type: ``group`` "" is the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


_BUILT_IN: Final = (
    # plural, kind, namespaced, group, version, short names
    ("configmaps", "ConfigMap", True, "", "v1", ("cm",)),
    ("endpoints", "Endpoints", True, "", "v1", ("ep",)),
    ("events", "Event", True, "", "v1", ("ev",)),
    ("namespaces", "Namespace", False, "", "v1", ("ns",)),
    ("nodes", "Node", False, "", "v1", ("no",)),
    ("persistentvolumeclaims", "PersistentVolumeClaim", True, "", "v1", ("pvc",)),
    ("persistentvolumes", "PersistentVolume", False, "", "v1", ("pv",)),
    ("pods", "Pod", True, "", "v1", ("po",)),
    ("secrets", "Secret", True, "", "v1", ()),
    ("serviceaccounts", "ServiceAccount", True, "", "v1", ("sa",)),
    ("services", "Service", True, "", "v1", ("svc",)),
    ("daemonsets", "DaemonSet", True, "apps", "v1", ("ds",)),
    ("deployments", "Deployment", True, "apps", "v1", ("deploy",)),
    ("replicasets", "ReplicaSet", True, "apps", "v1", ("rs",)),
    ("statefulsets", "StatefulSet", True, "apps", "v1", ("sts",)),
    ("cronjobs", "CronJob", True, "batch", "v1", ("cj",)),
    ("jobs", "Job", True, "batch", "v1", ()),
    ("networkpolicies", "NetworkPolicy", True, "networking.k8s.io", "v1", ("netpol",)),
    ("ingresses", "Ingress", True, "networking.k8s.io", "v1", ("ing",)),
    ("storageclasses", "StorageClass", False, "storage.k8s.io", "v1", ("sc",)),
    ("edgeroutes", "EdgeRoutes", False, api_group.GROUP, api_group.VERSION, ("eroutes",)),
)

_WORKLOADS: Final = frozenset(
    ("pods", "services", "daemonsets", "deployments", "replicasets", "statefulsets", "cronjobs", "jobs")
)
CATEGORIES: Final = {
    (group, plural): ["fairlead"] if group == api_group.GROUP else ["all"]
    for plural, _, _, group, _, _ in _BUILT_IN
    if plural in _WORKLOADS or group == api_group.GROUP
}
"""The categories by which ``kubectl get all`` and ``kubectl get fairlead`` find these types."""
SHORT_NAMES: Final = {(group, plural): list(short) for plural, _, _, group, _, short in _BUILT_IN}
ALWAYS_SERVED: Final = tuple(
    Kind(group=group, version=version, plural=plural, kind=kind, namespaced=namespaced)
    for plural, kind, namespaced, group, version, _ in _BUILT_IN
    if group in ("", api_group.GROUP)
)
"""Discovery lists these kinds even if there are no objects of them."""


def served(held: Iterable[Kind]) -> list[Kind]:
    """The kinds that clients may request: those always served and all that were ever stored."""
    by_path = {(kind.group, kind.version, kind.plural): kind for kind in (*ALWAYS_SERVED, *held)}
    return [by_path[path] for path in sorted(by_path)]
