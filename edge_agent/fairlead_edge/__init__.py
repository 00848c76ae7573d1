"""The edge agent: stores a node's objects, serves them locally, and sends the node's messages to the hub.

    hub ══link══ Session ──Apply──▶ Metastore ──change log──▶ watches, NodeRoutes
                  │ ◀─Applied──      ▲                            │
                  └─ack─▶ hub        └── ObjectsApi ◀── kubectl   ▼
                                                                Router
    application ──POST /v1/messages, MQTT──▶ Publisher ──append──▶ Outbox │
                                           └───────── routes ◀──────┘
    hub ◀══link══ Pump ◀──fetch, settle── Outbox        modules ◀── Broker ◀── Outbox

    app ▶ io ▶ agent_metrics ▶ agent_status, node_routes ▶ objects | outbox ▶ routes ▶ wire

``objects`` is the way down: the session with the hub, the store, and what clients see.  ``outbox`` is the way up: which
queues a message goes into, and in which order messages leave.  ``routes`` is the language of conditions, ``mqtt`` the
MQTT protocol.  ``node_routes`` builds a router from the EdgeRoutes objects on the node; ``agent_status`` and
``agent_metrics`` describe the state of the agent; ``identity`` decides when its certificate is renewed and whether its
clock is trusted.  All of these decide and are pure; ``io`` acts; ``app`` is the program.  An acknowledgement to the hub
means that the object is on disk here; a 200 to an application means that its messages are.  All objects are also served
while the node is offline.
"""
