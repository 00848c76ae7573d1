"""Comparing what the edge holds with what it should hold."""

from __future__ import annotations

import msgspec

from fairlead_wire.message.header import Encoding, Header, Id, Name, Place, Uid


class Compare(Header, frozen=True, kw_only=True, tag="compare"):
    """Hub: send your bucket sums at this granularity.  May be asked again at any time (an audit)."""

    id: Id
    bits: Place


class BucketSums(Header, frozen=True, kw_only=True, tag="buckets"):
    """Edge: the sums (content, ``digest.Buckets.encode``) as of one snapshot of the store."""

    parent_id: Id = msgspec.field(name="parentID")
    bits: Place


class ListBuckets(Header, frozen=True, kw_only=True, tag="list"):
    """Hub: name the entries of these buckets."""

    id: Id
    bits: Place
    buckets: list[Place]


class Entries(Header, frozen=True, kw_only=True, tag="entries"):
    """Edge: entries (content: JSON array of ``HeldEntry``); ``last`` on the final frame of one answer."""

    parent_id: Id = msgspec.field(name="parentID")
    last: bool
    encoding: Encoding = ""


class HeldEntry(msgspec.Struct, frozen=True, array_like=True):
    """One object the edge holds."""

    resource: str
    uid: Uid
    digest: Name
    resource_version: Name
