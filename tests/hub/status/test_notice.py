"""What status says of a document."""

from fairlead_hub.status import notice


def test_a_node_is_named_by_its_edge_node():
    """Which has no namespace."""
    found = notice.of_node("edge-1", "Normal", "Away", "node is away")
    assert (found.kind, found.namespace, found.name, found.reason) == ("EdgeNode", "", "edge-1", "Away")
