"""MQTT 3.1.1 and 5 for programs and devices on this node: an entrance to the outbox, not a broker.

    bytes ─frames▶ packets ─session▶ publishes ─topics, submission▶ outbox ─stored▶ PUBACK
                                  ▶ subscriptions ─topics▶ inputs ─leased▶ PUBLISH ─PUBACK▶ acknowledged

``frames`` cuts whole packets out of what arrives, ``packets`` reads them and ``encode`` writes them, ``properties`` are
those of level 5.  ``session`` is one connection as MQTT sees it; ``topics`` says what a topic means here, ``client``
who connects.  All of it is pure: bytes, identities and the time are arguments.  ``io.mqtt`` holds the sockets.
"""
