"""What a node may: its topics, its certificate, its pause and its deletion guard, as one value."""

import pytest
from tests.support.hubs.hub_core import Core

from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.delivery.identities import NodeCertificate

SHOWN = NodeCertificate(issued="2026-01-01T00:00:00Z", expires="2027-12-31T00:00:00Z")


@pytest.fixture
def core():
    return Core("edge-1")


@pytest.fixture
def terms(core):
    hub = core.hub
    return NodeTerms(hub.identities, hub.node_controls, hub.grants, hub.node_status)


def test_a_certificate_is_judged_when_nodes_and_edge_nodes_are_listed(core, terms):
    """Before, it is not known whether the Node was made again."""
    core.hub.identities.observed("edge-1", {"identity": {"nodeUID": "older", "issued": SHOWN.issued,
                                                         "expires": SHOWN.expires}}, {})  # fmt: skip
    assert "this certificate is older" in terms.refused_identity("edge-1", SHOWN)
    core.hub.placement.listed.inputs.discard("edgenodes")
    assert terms.refused_identity("edge-1", SHOWN) == ""


def test_of_a_node_that_is_gone_only_its_certificates_are_remembered(core, terms):
    """Until none of them can come again."""
    core.hub.identities.judge("edge-1", "uid-edge-1", SHOWN)
    core.annotate("edge-1", paused="works")
    terms.drop("edge-1")
    core.hub.cluster.drop_node("edge-1", core.now)
    assert terms.of("edge-1").identity is not None and terms.of("edge-1").granted_topics == frozenset()
    terms.forget_expired(core.now, "2027-06-01T00:00:00Z")
    assert terms.of("edge-1").identity is not None
    terms.forget_expired(core.now, "2028-06-01T00:00:00Z")
    assert terms.of("edge-1").identity is None
