"""The edge agent: holds a node's objects, serves them locally, and carries what the node says upward.

    hub ══link══ Sync ──Apply──▶ Metastore ──change log──▶ watches, NodeRoutes
                  │ ◀─Applied──      ▲                            │
                  └─ack─▶ hub        └── ObjectsApi ◀── kubectl   ▼
                                                                Router
    application ──POST /v1/messages──▶ Publisher ──append──▶ Outbox │
                                           └───────── routes ◀──────┘
    hub ◀══link══ Pump ◀──fetch, settle── Outbox        modules ◀── Broker ◀── Outbox

Down: ``sync`` decides, ``chunks`` collects parts, ``metastore`` holds (``changelog``: what changed), ``receipts`` and
``entries`` answer.  Read locally: ``paths``, ``kinds``, ``discovery``, ``selectors``, ``listing``, ``table``,
``api_errors``.  Up: ``manifest``, ``routes``, ``router``, ``node_routes``, ``publishing``, ``envelope``, ``outbox``,
``queue_id``, ``checkpoint``, ``pump``, ``endpoint_fsm``, ``lease``, ``age``.  Of itself: ``account``, ``metrics``.
``settings`` are values.

The root decides and is pure; ``io`` acts; ``app`` alone joins them.  An acknowledgement to the hub means that the
object is on disk here, a 200 to an application that its messages are.  Everything held is served offline, too.
"""
