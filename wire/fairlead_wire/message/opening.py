"""How a session opens: who is there, and who goes."""

from __future__ import annotations

from fairlead_wire.message.header import PROTOCOL, Count, Epoch, Header, Id, Name, Place, Seconds


class Hello(Header, frozen=True, kw_only=True, tag="hello"):
    """The edge opens: who it is, which opening of its store this is, and a digest of all it holds."""

    protocol: int = PROTOCOL
    node: Name
    agent: Name
    store_epoch: Epoch
    """Random 53-bit number, made anew each time the edge opens its store."""
    fence: Epoch
    """The highest fencing number of a hub this edge has ever obeyed; 0 = none yet."""
    bits: Place
    held: Count
    root: Name
    inputs: bool = False
    """This edge takes ``input`` and answers ``where``."""
    status_rules: Name | None = None
    """Digest of the ``rules`` it holds; None: it does not take that frame."""


class Welcome(Header, frozen=True, kw_only=True, tag="welcome"):
    """The hub accepts.  An edge must leave a hub whose ``fence`` is below the highest it has seen."""

    protocol: int = PROTOCOL
    hub: str
    fence: Epoch
    session: Id
    keepalive_seconds: Seconds
    frame_bytes_max: Count
    upstream_window: Place
    """How many upstream batches may be unacknowledged at once."""
    renew_after_seconds: Seconds | None = None
    """From now, by the edge's monotonic clock: then ask for a new certificate.  None: the one who made it renews it."""
    tables: bool = False
    """This hub answers ``ask``."""
    reports: bool = False
    """This hub takes ``report``."""


class Refuse(Header, frozen=True, kw_only=True, tag="refuse"):
    """The hub ends the session (now or later) and says why; ``retry_after`` None = do not come back by yourself."""

    code: Name
    """One word for programs; an edge that does not know it obeys ``retry_after`` all the same."""
    reason: str
    retry_after: Seconds | None = None
    fence: Epoch | None = None
    """With ``stale_hub``, from a hub that holds the Lease now: its number.  A node that hears nothing higher for
    ``[link] stale_hub_seconds`` gives up the number it has obeyed."""
    approved: bool = False
    """With ``fence``: a person approved that this node gives up the number of its hello at once."""
