"""What a Pod mounts or names."""

from fairlead_hub import references


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


def test_odd_parts_are_passed_over():
    """What the API server let through cannot stop the hub."""
    assert of(volumes=None, containers=[None, {"env": "x"}, 3], imagePullSecrets={}) == {"namespaces//shop"}
    assert references.of_pod({}) == {"namespaces//"}
