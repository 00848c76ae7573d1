"""What a module leaves in the shared cluster is found, named, and forgiven only where that is written down."""

from __future__ import annotations

import base64
import json

from tests.support.kube import leftovers
from tests.support.kube.cluster import Cluster
from tests.support.kube.leftovers import Stored


def stored(*keys: str, ending: tuple[str, ...] = ()) -> Stored:
    return Stored(frozenset(keys), frozenset(ending))


def test_what_came_and_stayed_is_named() -> None:
    """What was there before is another module's."""
    before = stored("minions/edge-1")
    after = stored("minions/edge-1", "minions/edge-2", "fairlead.dev/edgenodes/edge-2")
    found = leftovers.left(before, after)
    assert found == ["fairlead.dev/edgenodes/edge-2", "minions/edge-2"]
    assert leftovers.complaint("tests/a.py", found).startswith(
        "tests/a.py left in the cluster that other modules share: fairlead.dev/edgenodes/edge-2, minions/edge-2; "
    )
    assert leftovers.complaint("tests/a.py", leftovers.left(after, before)) == ""


def test_what_ends_with_its_namespace_is_gone() -> None:
    """Ending one takes five seconds, and no test waits for it."""
    keys = ("namespaces/test-1", "configmaps/test-1/a", "fairlead.dev/objectsyncs/test-1/b")
    assert leftovers.left(stored(), stored(*keys, ending=("test-1",))) == []
    assert len(leftovers.left(stored(), stored(*keys))) == 3


def test_definitions_stay_and_their_objects_do_not() -> None:
    """As the list says, with the reason."""
    definition = "apiextensions.k8s.io/customresourcedefinitions/edgenodes.fairlead.dev"
    kept = ("events/default/a.1", "namespaces/cli-test", "configmaps/cli-test/kube-root-ca.crt", definition)
    assert leftovers.left(stored(), stored(*kept)) == []
    left = ("configmaps/cli-test/a", "leases/default/fairlead-hub", "namespaces/cli-tests", "clusterroles/odd")
    assert leftovers.left(stored(), stored(*left)) == sorted(left)


def test_the_answer_of_etcd_is_read() -> None:
    """Keys are base64; without any there is no list."""
    key = base64.b64encode(b"/registry/minions/edge-1").decode()
    found = leftovers.answer(json.dumps({"kvs": [{"key": key}]}).encode(), {"a": "Terminating", "b": "Active"})
    assert found == stored("minions/edge-1", ending=("a",))
    assert leftovers.answer(b'{"header": {}}', {}) == stored()


def test_a_real_cluster_shows_what_it_holds(cluster: Cluster, namespace: str) -> None:
    """Of every kind, also of those that no test listed."""
    before = cluster.stored()
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "left-behind"}})
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}})
    assert leftovers.left(before, cluster.stored()) == ["minions/left-behind", f"secrets/{namespace}/s"]
    cluster.kubectl("delete", "node", "left-behind")
    cluster.kubectl("delete", "secret", "-n", namespace, "s")
    assert leftovers.left(before, cluster.stored()) == []
