"""What a device joined with, and what its settings name."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_cli.doctor.device.certificates import IdentityFolder, judge_identity

LINK = "/data/identity/node.pem"
JOINED = IdentityFolder(link=LINK, current="node-ab.pem")


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({}, "ok", "node-ab.pem is in use"),
        ({"others": 1}, "ok", "the pair before it is kept until a session was opened"),
        ({"unfinished": True}, "warning", "a join was begun and not finished"),
        ({"current": "", "error": f"{LINK}: No such file"}, "problem", f"{LINK}: No such file"),
    ],
)
def test_the_state_of_the_folder(changes: dict[str, object], level: str, text: str) -> None:
    [found] = judge_identity(msgspec.structs.replace(JOINED, **changes), LINK, LINK)
    assert (found.check, found.level) == ("identity", level) and text in found.message


def test_settings_that_name_other_files() -> None:
    """Nothing renews those."""
    [found] = judge_identity(JOINED, "/etc/tls.crt", LINK)
    assert found.level == "warning" and "nothing renews them" in found.message


def test_a_device_that_never_joined() -> None:
    """Its files come from elsewhere: nothing is said."""
    assert list(judge_identity(IdentityFolder(link=LINK), "/etc/tls.crt", "/etc/tls.key")) == []
