"""The inside of the outbox's file: functions of a connection, each called in a writer's transaction or in one read.

    schema                                the tables, and which version of them is read
    append, settlement, expiry            what changes the logs (with eviction, attempts, inherited times to live)
    dead_letters                          messages that were refused permanently
    log, bodies                           the logs, their messages, and how these are packed
    inputs                                messages from the cloud
    receipt_tables                        where a message is
    store_state                           the status of queues, the clock and the owner

``statements`` has every SQL statement by name.
"""
