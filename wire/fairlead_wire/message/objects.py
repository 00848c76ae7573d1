"""Down: the state of objects."""

from __future__ import annotations

import msgspec

from fairlead_wire.message.header import Encoding, Header, Id, Name, Place


class Update(Header, frozen=True, kw_only=True, tag="update"):
    """Hub: hold this object (content: its canonical JSON).  A new UID replaces the old atomically."""

    id: Id
    resource: str
    uid: str
    resource_version: str
    digest: str
    """Hex SHA-256 of the unpacked content; the edge checks it before it stores."""
    encoding: Encoding = ""
    chunks: Place = 0
    """0: the content is in this frame.  n: it follows in n ``chunk`` frames with this id."""
    traceparent: Name | None = None
    """As in ``Upstream``: of the change that is delivered."""


class Chunk(Header, frozen=True, kw_only=True, tag="chunk"):
    """Hub: part ``index`` (from 0) of the content of update ``id``."""

    id: Id
    index: Place


class Progress(Header, frozen=True, kw_only=True, tag="progress"):
    """Edge: ``chunks`` parts of that update have arrived; restarts the sender's ack timer."""

    parent_id: Id = msgspec.field(name="parentID")
    chunks: Place


class Delete(Header, frozen=True, kw_only=True, tag="delete"):
    """Hub: forget this object if it still has this UID; another UID under the name stays."""

    id: Id
    resource: str
    uid: str
