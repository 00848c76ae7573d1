"""Names and limits of reports of status."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_wire import message
from fairlead_wire.link import codec


def test_each_node_has_a_field_manager_that_kubernetes_takes() -> None:
    """Also with the longest names, that differ only at their ends."""
    assert message.field_manager("edge-1") == "fairlead-edge-edge-1"
    first, second = (message.field_manager("n" * 252 + end) for end in "ab")
    assert len(first) == len(second) == 128 and first != second


def test_the_stronger_of_two_counts() -> None:
    assert message.stronger("", "cluster") == message.stronger("cluster", "") == "cluster"
    assert message.stronger("all", "cluster") == "all"


@pytest.mark.parametrize("force", ["", "cluster", "all"])
def test_a_report_travels(force: message.Force) -> None:
    report = message.Report(id=1, resource="api/v1/nodes/n", uid="u", force=force)
    assert codec.decode_from_edge(codec.encode(report, b"{}")) == (report, b"{}")


def test_older_peers_say_nothing_of_it() -> None:
    """None of the rules, which is not the same as holding none."""
    hello = message.Hello(node="n", agent="1", store_epoch=1, fence=0, bits=0, held=0, root="")
    assert b"statusRules" not in msgspec.json.encode(hello)
    assert b'"statusRules":""' in msgspec.json.encode(msgspec.structs.replace(hello, status_rules=""))
