"""Is the key of the stores there, and is it the one they are encrypted with?"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairlead_cli.doctor.finding import Finding, ok, problem, warning

CHECK = "encryption"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What was found behind ``[store] encryption_key``."""

    error: str = ""
    """Why it cannot be read, or does not open the stores."""
    fingerprint: str = ""
    readable_by_others: bool = False
    on_the_same_disk: bool = False
    """It lies in the folder of the stores."""


def judge(key: Key | None, place: str) -> Iterator[Finding]:
    """None: no key is given."""
    if key is None:
        yield ok(CHECK, "the stores are not encrypted; the key of [store] encryption_key would encrypt them")
    elif key.error:
        yield problem(CHECK, key.error, "give the agent the key that its stores were encrypted with")
    else:
        yield ok(CHECK, f"the key in {place} is usable; its fingerprint is {key.fingerprint}")
    if key is not None and key.readable_by_others:
        yield warning(CHECK, f"other users may read {place}", f"chmod 600 {place}")
    if key is not None and key.on_the_same_disk:
        text = f"{place} lies beside the stores: who takes the disk has both"
        yield warning(CHECK, text, "keep it on another disk, or as a systemd credential")
