"""What a Pod mounts or names."""

from fairlead_hub.cluster import references


def of(**spec):
    return references.of_pod({"metadata": {"namespace": "shop"}, "spec": spec})


def test_volumes_environment_and_pull_secrets():
    """Everything the Pod needs on the node is found, wherever it is named."""
    found = of(
        volumes=[
            {"configMap": {"name": "prices"}},
            {"secret": {"secretName": "tls"}},
            {"persistentVolumeClaim": {"claimName": "disk"}},
            {"projected": {"sources": [{"configMap": {"name": "p1"}}, {"secret": {"name": "p2"}}]}},
            {"csi": {"nodePublishSecretRef": {"name": "csi"}}},
        ],
        containers=[{"envFrom": [{"configMapRef": {"name": "env"}}], "env": [
            {"valueFrom": {"secretKeyRef": {"name": "key"}}}]}],
        initContainers=[{"envFrom": [{"secretRef": {"name": "init"}}]}],
        imagePullSecrets=[{"name": "pull"}],
        serviceAccountName="till",
    )  # fmt: skip
    expected = {
        "configmaps/shop/prices", "secrets/shop/tls", "persistentvolumeclaims/shop/disk", "configmaps/shop/p1",
        "secrets/shop/p2", "secrets/shop/csi", "configmaps/shop/env", "secrets/shop/key", "secrets/shop/init",
        "secrets/shop/pull", "serviceaccounts/shop/till",
    }  # fmt: skip
    assert expected <= found


def test_cluster_scoped_names_have_no_namespace():
    """The node, the namespace and the priority class are referred to as well."""
    found = of(nodeName="edge-1", priorityClassName="high")
    assert {"namespaces//shop", "nodes//edge-1", "priorityclasses.scheduling.k8s.io//high"} <= found


def test_what_is_made_for_the_pod_is_its_own():
    """The claim of an ephemeral volume by its name, claims made from templates by the Pod's status."""
    pod = {
        "metadata": {"namespace": "shop", "name": "till-0"},
        "spec": {
            "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, {"ephemeral": {}}],
            "resourceClaims": [
                {"name": "gpu", "resourceClaimTemplateName": "gpus"},
                {"name": "own", "resourceClaimName": "mine"},
                {"name": "older", "source": {"resourceClaimName": "older"}},
            ],
        },
        "status": {
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "till-0-gpu-x7"}, {"name": "late"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "till-0-extended"},
        },
    }
    assert references.of_pod(pod) == {
        "namespaces//shop",
        "persistentvolumeclaims/shop/till-0-scratch",
        "resourceclaimtemplates.resource.k8s.io/shop/gpus",
        *(f"{references.CLAIMS}/shop/{name}" for name in ("till-0-gpu-x7", "mine", "older", "till-0-extended")),
    }


def test_odd_parts_are_passed_over():
    """What the API server let through cannot stop the hub."""
    assert of(volumes=None, containers=[None, {"env": "x"}, 3], imagePullSecrets={}) == {"namespaces//shop"}
    volumes: list[object] = [{"ephemeral": {"volumeClaimTemplate": {}}}]
    assert of(volumes=volumes, resourceClaims=["x", {"source": 3}], nodeName=3) == {"namespaces//shop"}
    odd = {"metadata": [], "spec": [], "status": {"resourceClaimStatuses": {}, "extendedResourceClaimStatus": 3}}
    assert references.of_pod(odd) == {"namespaces//"}
    assert references.of_pod({}) == {"namespaces//"}
