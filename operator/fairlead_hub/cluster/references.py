"""The objects a Pod mounts or names, as keys (``type/namespace/name``).

Only objects that the Pod mounts or names, or that are created for it alone: the claim of a generic ephemeral volume is
named after the Pod and the volume, and the Pod's status says which ResourceClaim was created from a template.  A
claim's volume or a service account's secrets are one step further away; use a rule with ``select: all`` for those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

CLAIMS = "resourceclaims.resource.k8s.io"
CLAIM_TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
_VOLUME_SECRETS = ("azureFile", "cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")


def of_pod(pod: dict[str, Any]) -> frozenset[str]:
    """Keys of everything the Pod refers to.

    Unknown or malformed parts are skipped: the API server validated the Pod.
    """
    spec = _dict(pod.get("spec"))
    namespace = str(_dict(pod.get("metadata")).get("namespace", ""))
    pod_name = str(_dict(pod.get("metadata")).get("name", ""))
    found = {f"namespaces//{namespace}"}
    for plural, name in (*_namespaced(spec, pod_name), *_made_for_it(_dict(pod.get("status")))):
        if isinstance(name, str) and name:
            found.add(f"{plural}/{namespace}/{name}")
    for field, plural in (
        ("nodeName", "nodes"),
        ("priorityClassName", "priorityclasses.scheduling.k8s.io"),
        ("runtimeClassName", "runtimeclasses.node.k8s.io"),
    ):
        if isinstance(spec.get(field), str) and spec[field]:
            found.add(f"{plural}//{spec[field]}")
    return frozenset(found)


def _namespaced(spec: dict[str, Any], pod_name: str) -> Iterator[tuple[str, Any]]:
    yield "serviceaccounts", spec.get("serviceAccountName")
    for secret in _dicts(spec.get("imagePullSecrets")):
        yield "secrets", secret.get("name")
    for claim in _dicts(spec.get("resourceClaims")):
        for source in (claim, _dict(claim.get("source"))):  # API versions before v1beta1 had one more level
            yield CLAIMS, source.get("resourceClaimName")
            yield CLAIM_TEMPLATES, source.get("resourceClaimTemplateName")
    for volume in _dicts(spec.get("volumes")):
        yield from _volume(volume)
        if _dict(volume.get("ephemeral")).get("volumeClaimTemplate") is not None and volume.get("name"):
            yield "persistentvolumeclaims", f"{pod_name}-{volume['name']}"
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in _dicts(spec.get(kind)):
            yield from _container(container)


def _made_for_it(status: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for claim in _dicts(status.get("resourceClaimStatuses")):
        yield CLAIMS, claim.get("resourceClaimName")
    yield CLAIMS, _dict(status.get("extendedResourceClaimStatus")).get("resourceClaimName")


def _volume(volume: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "configmaps", _dict(volume.get("configMap")).get("name")
    yield "secrets", _dict(volume.get("secret")).get("secretName")
    yield "secrets", _dict(volume.get("azureFile")).get("secretName")
    yield "persistentvolumeclaims", _dict(volume.get("persistentVolumeClaim")).get("claimName")
    yield "secrets", _dict(_dict(volume.get("csi")).get("nodePublishSecretRef")).get("name")
    for kind in _VOLUME_SECRETS:
        yield "secrets", _dict(_dict(volume.get(kind)).get("secretRef")).get("name")
    for source in _dicts(_dict(volume.get("projected")).get("sources")):
        yield "configmaps", _dict(source.get("configMap")).get("name")
        yield "secrets", _dict(source.get("secret")).get("name")


def _container(container: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for source in _dicts(container.get("envFrom")):
        yield "configmaps", _dict(source.get("configMapRef")).get("name")
        yield "secrets", _dict(source.get("secretRef")).get("name")
    for variable in _dicts(container.get("env")):
        value = _dict(variable.get("valueFrom"))
        yield "configmaps", _dict(value.get("configMapKeyRef")).get("name")
        yield "secrets", _dict(value.get("secretKeyRef")).get("name")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
