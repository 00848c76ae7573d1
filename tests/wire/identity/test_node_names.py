"""Which names a node's certificate carries."""

import pytest

from fairlead_wire.identity import node_names


def test_a_node_is_named_in_each_place():
    """Subject, DNS name and URI; loopback for modules beside the agent."""
    names = node_names.of("shop-17", "acme")
    assert (names.node, names.common_name, names.dns) == ("shop-17", "shop-17", ("shop-17", "localhost"))
    assert names.uri == "spiffe://acme/node/shop-17" and names.addresses == ("127.0.0.1", "::1")


def test_a_name_too_long_for_a_subject_stands_in_the_first_dns_name():
    long = "a" * 60 + ".example"
    assert node_names.of("a" * 64).common_name == "a" * 64
    assert node_names.of(long).common_name == "" and node_names.of(long).dns[0] == long
    assert node_names.of("a" * 253).dns[0] == "a" * 253


@pytest.mark.parametrize("name", ["", "Shop", "a" * 254, "a b", "-a", "a..b", "a\n", "ä", "a/b", "a_b"])
def test_what_no_node_is_called_is_refused(name: str):
    assert not node_names.is_node_name(name)
    with pytest.raises(ValueError, match="cannot be the name"):
        node_names.of(name)
