"""Users by name."""

from __future__ import annotations

import pwd

from fairlead_wire.io import users


def test_a_user_is_named_where_it_has_a_name() -> None:
    """Any other keeps its number, which chown takes too."""
    root = pwd.getpwuid(0).pw_name
    taken = {each.pw_uid for each in pwd.getpwall()}
    nobody = next(uid for uid in range(70_000, 80_000) if uid not in taken)
    assert (users.name(0), users.name(nobody)) == (root, str(nobody))
