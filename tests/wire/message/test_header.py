"""The bounded types of header fields."""

import msgspec
import pytest

from fairlead_wire import message


@pytest.mark.parametrize("uid", ["9b2c1a5e-0000-4000-8000-000000000000", "a", "A_1", "u" * 128])
def test_a_uid_that_may_be_held_is_read_from_the_wire(uid: str) -> None:
    """The edge's own check and the hub's reading agree."""
    assert message.is_uid(uid)
    assert msgspec.convert(["api/v1/nodes/x", uid, "d", "7"], message.HeldEntry).uid == uid


@pytest.mark.parametrize("uid", ["", "u" * 129, "a.b", "a/b", "a\n", "ä"])
def test_a_uid_that_makes_another_name_or_path_is_refused_on_both_sides(uid: str) -> None:
    """The hub makes names and paths of it."""
    assert not message.is_uid(uid)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(["api/v1/nodes/x", uid, "d", "7"], message.HeldEntry)
