"""Every parser of input from the network or a peer, by source root.

link            frames of the link, both ways; upstream batches, status reports; whole sessions
texts           certificates, trace contexts, paths of objects, headers of browsers
edge            the local API: bodies, selectors, paths, queries; module tokens
mqtt            what MQTT clients send: packets, whole connections, topics
routes          the route language, manifests, bodies that conditions look into
hub             what the API server sends: lists, watch lines, objects, SyncRules, EdgeRoutes, EdgeNodes, ObjectSyncs
messaging       bodies in JSON and Avro, topic properties, subscriptions, ids; what the service answers its clients
ingest          messages on their way into rows, offsets in checkpoints
"""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets import edge, hub, identity, ingest, link, messaging, mqtt, routes, texts

TARGETS: dict[str, Target] = {
    target.name: target
    for room in (link, identity, texts, edge, mqtt, routes, hub, messaging, ingest)
    for target in room.TARGETS
}
