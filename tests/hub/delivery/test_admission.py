"""When a handshake may begin, which node may open a session, and what the others hear."""

import pytest

from fairlead_hub.delivery import admission
from fairlead_hub.delivery.admission import HandshakeLimiter
from fairlead_wire import message
from fairlead_wire.objects import digest

HELLO = message.Hello(
    node="edge-1", agent="1", store_epoch=1, fence=3, bits=0, held=0, root=digest.Buckets.of([], 0).root
)


def asked(hello=HELLO, node="edge-1", nodes=("edge-1",), others=0):
    return admission.refusal(node, hello, nodes=nodes, others=others, nodes_max=2)


def test_an_edge_node_with_its_own_name_is_welcome():
    """Also when no Node is listed yet, so that a hub that starts does not send every node away."""
    assert asked() is None
    assert asked(nodes=None) is None


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"hello": message.Hello(**{**{f: getattr(HELLO, f) for f in HELLO.__struct_fields__}, "protocol": 99})},
         "protocol", "protocol 99"),
        ({"node": "edge-2"}, "identity", "the certificate is edge-2's, the hello says edge-1"),
        ({"nodes": ()}, "node_unknown", "if the Node exists: kubectl label node edge-1 node-role.kubernetes.io/edge="),
        ({"others": 2}, "busy", "2 nodes are connected already"),
    ],
)  # fmt: skip
def test_the_others_hear_why_and_when_to_come_back(changed, code, words):
    """A code for programs, a sentence for people, a time for both."""
    found = asked(**changed)
    assert found.code == code and words in found.reason and found.retry_after > 0


@pytest.mark.parametrize(
    ("fence", "words"), [(2, "has obeyed hub 3, this is 2"), (3, ""), (4, "")]
)  # fmt: skip
def test_a_node_that_obeyed_a_higher_number_receives_ours(fence, words):
    """And comes back rarely enough for a metered line."""
    found = admission.stale(HELLO, fence, approved=False)
    assert (found is None) == (not words)
    if found is not None:
        assert words in found.reason and (found.code, found.fence) == ("stale_hub", fence)
        assert found.retry_after == admission.STALE_RETRY_SECONDS >= 10 and not found.approved


def test_a_node_that_a_person_approved_gives_its_number_up_and_comes_at_once():
    """Which one is approved is not this module's to know."""
    found = admission.stale(HELLO, 2, approved=True)
    assert found is not None and (found.fence, found.approved, found.retry_after) == (2, True, 0.0)


def test_as_many_begin_at_once_as_there_are_slots():
    """The third waits."""
    limiter = HandshakeLimiter(slots_max=2)
    for key in (1, 2):
        assert limiter.may_begin(0.0)
        limiter.begin(key, 0.0)
    assert not limiter.may_begin(0.0)


def test_who_is_done_makes_room_for_the_next():
    """Whichever of them it is."""
    limiter = HandshakeLimiter(slots_max=2)
    limiter.begin(1, 0.0)
    limiter.begin(2, 0.0)
    limiter.end(2)
    assert limiter.may_begin(0.0)


def test_who_takes_long_goes_on_without_a_slot():
    """A silent peer holds up the others for ``slot_seconds`` and no longer; the time of the next chance is known."""
    limiter = HandshakeLimiter(slots_max=2, slot_seconds=3)
    limiter.begin(1, 0.0)
    limiter.begin(2, 1.0)
    assert not limiter.may_begin(2.9) and limiter.next_slot() == 3.0
    assert limiter.may_begin(3.0)
    limiter.begin(3, 3.0)
    assert not limiter.may_begin(3.5) and limiter.next_slot() == 4.0


def test_an_end_after_the_slot_was_given_back_frees_no_other():
    """Nor does a second end."""
    limiter = HandshakeLimiter(slots_max=1, slot_seconds=3)
    limiter.begin(1, 0.0)
    assert limiter.may_begin(3.0)
    limiter.begin(2, 3.0)
    limiter.end(1)
    limiter.end(1)
    assert not limiter.may_begin(3.0)
