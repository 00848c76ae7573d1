"""Inside the outbox's file: functions of a connection, called within one transaction of the writer or one read.

    schema                                the tables, and which version of them is read
    append, settlement, expiry, eviction  what changes the logs; ``dead_letters`` what was refused for good
    attempts, inheritance                 messages that modules are working on; times to live that follow their object
    log, bodies, segment                  the logs, their messages, and how these are packed
    receipts                              where is this message?  A room of its own
    queue_status, store_identity          what the outbox says of itself

``statements`` has every SQL statement by name.
"""
