"""Is the identity that this device joined with the one that its settings name, and was joining finished?"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairlead_cli.doctor.finding import Finding, ok, problem, warning

JOIN = "join again: fairlead token create --replace NODE, then fairlead edge join --force on this device"


class IdentityFolder(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in the folder ``identity``.  ``current``: the file in use, "" for none; ``error``: why it cannot be."""

    link: str
    current: str = ""
    error: str = ""
    others: int = 0
    unfinished: bool = False
    """A key waits for the certificate of a join."""


def judge(identity: IdentityFolder, tls_cert: str, tls_key: str) -> Iterator[Finding]:
    """Nothing is said where the device never joined."""
    if identity.error:
        yield problem("identity", identity.error, JOIN)
    elif identity.unfinished:
        text = "a join was begun and not finished: a key waits for its certificate"
        yield warning("identity", text, "run the same fairlead edge join again; it goes on where it was")
    elif identity.current and {tls_cert, tls_key} != {identity.link}:
        text = f"tls_cert and tls_key are not {identity.link}, by which this device joined: nothing renews them"
        yield warning("identity", text, "name it as both in the settings, unless another program renews these files")
    elif identity.current:
        kept = "; the pair before it is kept until a session was opened" if identity.others else ""
        yield ok("identity", f"{identity.current} is in use{kept}")
