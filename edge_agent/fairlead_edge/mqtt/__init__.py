"""MQTT 3.1.1 and 5 for programs and devices on this node: a way into the outbox, not a general broker.

    bytes ─codec, packets▶ session ─topics, messages▶ outbox ─stored▶ PUBACK
                                   ▶ subscriptions ─topics▶ inputs ─leased▶ delivery ─PUBLISH▶ ─PUBACK▶ acknowledged

codec     data types, framing, properties of level 5; ``packets`` reads and writes the control packets with it
session   the state of one connection; ``delivery`` is its window of unacknowledged messages to a subscriber
topics    what a topic or topic filter means here; ``messages`` converts between PUBLISH and stored messages
wills     wills, and sessions kept for clients that disconnected.  Messages are never retained
client    who may connect
limits    every limit; ``reasons`` every reason code

All of it is pure: bytes, identities and the time are arguments.  ``io.mqtt`` holds the sockets.
"""
