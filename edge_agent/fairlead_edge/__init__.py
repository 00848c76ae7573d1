"""The edge agent: holds a node's objects, serves them locally, and carries what the node says upward.

    hub ══link══ Session ──Apply──▶ Metastore ──change log──▶ watches, NodeRoutes
                  │ ◀─Applied──      ▲                            │
                  └─ack─▶ hub        └── ObjectsApi ◀── kubectl   ▼
                                                                Router
    application ──POST /v1/messages, MQTT──▶ Publisher ──append──▶ Outbox │
                                           └───────── routes ◀──────┘
    hub ◀══link══ Pump ◀──fetch, settle── Outbox        modules ◀── Broker ◀── Outbox

    app ▶ io ▶ agent_metrics ▶ agent_status, node_routes ▶ objects | outbox ▶ routes ▶ wire

``objects`` is the way down: the session with the hub, the store, what clients see.  ``outbox`` is the way up: which
queues a message goes into, and in which order it leaves.  ``routes`` is the language of conditions, ``mqtt`` what MQTT
clients send.  ``node_routes`` makes a router of the EdgeRoutes objects held; ``agent_status`` and ``agent_metrics``
describe the state of the agent; ``identity`` decides when its certificate is renewed and whether its clock is trusted.
All of these decide and are pure; ``io`` acts; ``app`` is the program.  An acknowledgement to the hub means that the
object is on disk here, a 200 to an application that its messages are.  Everything held is served offline, too.
"""
