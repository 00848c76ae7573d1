"""The frame headers of the link: one struct per verb.

A frame is a header and, for some verbs, *content*: bytes that the codec passes through unchanged (an object's canonical
JSON, a batch of upstream messages, bucket sums).  In an acknowledgement ``operation`` is "ack" and ``parentID`` is the
id of the message it answers (seed: reliable message delivery, "ACK message Format").

Ids are integers from 1, unique within a session and direction.  Times are seconds, sizes bytes.

    edge → hub   hello · buckets · entries · ack · nack · progress · upstream · ask · states · report · status
                 renew · keepalive
    hub → edge   welcome · refuse · compare · list · update · delete · chunk · ack · nack · tables · input · where
                 rules · issued · authorities · keepalive

A device without a certificate uses only these:

    device → hub   authorities · join · late · prove
    hub → device   authorities · challenge · issued · refuse

``session`` defines the base class and the frames for sessions, objects and certificates; ``upstream`` those for
messages and for the state of a node.  Import this package and write ``message.Update``.
"""

from __future__ import annotations

from fairlead_wire.message.session import (
    NAME_CHARS_MAX,
    NONCE_BYTES,
    PROTOCOL,
    REASON_CHARS_MAX,
    Ack,
    AskAuthorities,
    Authorities,
    BucketSums,
    Challenge,
    Chunk,
    Compare,
    Deferred,
    Delete,
    Encoding,
    Entries,
    Header,
    HeldEntry,
    Hello,
    Issued,
    IssuedCertificates,
    Join,
    Keepalive,
    Late,
    ListBuckets,
    Nack,
    Progress,
    Proof,
    Prove,
    Refuse,
    RefusedItem,
    Renew,
    TopicPosition,
    Update,
    Welcome,
    is_uid,
    late_proof,
)
from fairlead_wire.message.upstream import (
    INPUT_BYTES_MAX,
    INPUT_NAME,
    INPUT_NAME_CHARS_MAX,
    INPUT_STATES_MAX,
    INPUT_TTL_SECONDS_MAX,
    INPUT_WINDOW,
    STATUS_BYTES_MAX,
    STATUS_RULES_BYTES_MAX,
    STATUS_RULES_MAX,
    TABLE_READERS_MAX,
    TABLE_TOPICS_MAX,
    TO_TABLE_WINDOW,
    AskInputs,
    AskTables,
    EdgeStatus,
    Force,
    Input,
    InputReached,
    InputState,
    InputStates,
    LabelTerm,
    QueueStatus,
    Report,
    RouteError,
    RoutesStatus,
    Status,
    StatusRule,
    StatusRules,
    TableReached,
    Tables,
    TopicTables,
    ToTable,
    Upstream,
    UpstreamMessage,
    field_manager,
    stronger,
)

FromEdge = (
    Hello
    | BucketSums
    | Entries
    | Ack
    | Nack
    | Progress
    | Upstream
    | AskTables
    | InputStates
    | Report
    | Status
    | Renew
    | Keepalive
)
FromHub = (
    Welcome
    | Refuse
    | Compare
    | ListBuckets
    | Update
    | Delete
    | Chunk
    | Ack
    | Nack
    | Tables
    | Input
    | AskInputs
    | StatusRules
    | Issued
    | Authorities
    | Keepalive
)
FromDevice = AskAuthorities | Join | Late | Prove
"""Without a client certificate."""
ToDevice = Authorities | Challenge | Issued | Refuse
AnyHeader = FromEdge | FromHub | FromDevice | ToDevice

__all__ = [
    "INPUT_BYTES_MAX",
    "INPUT_NAME",
    "INPUT_NAME_CHARS_MAX",
    "INPUT_STATES_MAX",
    "INPUT_TTL_SECONDS_MAX",
    "INPUT_WINDOW",
    "NAME_CHARS_MAX",
    "NONCE_BYTES",
    "PROTOCOL",
    "REASON_CHARS_MAX",
    "STATUS_BYTES_MAX",
    "STATUS_RULES_BYTES_MAX",
    "STATUS_RULES_MAX",
    "TABLE_READERS_MAX",
    "TABLE_TOPICS_MAX",
    "TO_TABLE_WINDOW",
    "Ack",
    "AnyHeader",
    "AskAuthorities",
    "AskInputs",
    "AskTables",
    "Authorities",
    "BucketSums",
    "Challenge",
    "Chunk",
    "Compare",
    "Deferred",
    "Delete",
    "EdgeStatus",
    "Encoding",
    "Entries",
    "Force",
    "FromDevice",
    "FromEdge",
    "FromHub",
    "Header",
    "HeldEntry",
    "Hello",
    "Input",
    "InputReached",
    "InputState",
    "InputStates",
    "Issued",
    "IssuedCertificates",
    "Join",
    "Keepalive",
    "LabelTerm",
    "Late",
    "ListBuckets",
    "Nack",
    "Progress",
    "Proof",
    "Prove",
    "QueueStatus",
    "Refuse",
    "RefusedItem",
    "Renew",
    "Report",
    "RouteError",
    "RoutesStatus",
    "Status",
    "StatusRule",
    "StatusRules",
    "TableReached",
    "Tables",
    "ToDevice",
    "ToTable",
    "TopicPosition",
    "TopicTables",
    "Update",
    "Upstream",
    "UpstreamMessage",
    "Welcome",
    "field_manager",
    "is_uid",
    "late_proof",
    "stronger",
]
