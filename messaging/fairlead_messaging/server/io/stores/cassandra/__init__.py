"""Cassandra behind the ordered key-value port: one instance of the service writes at a time, whatever happens.

    cassandra_kv   the store ─→ snapshots ─→ pages        what is read: rows as they lie, and layers over them
         ├─→ ownership ─→ journal                          who may write; a batch is durable with one conditional write
         ├─→ applier ─→ rows                               what is in the journal, written where it is read
         └─→ session                                       connections, errors with their remedies, tables

Atomic and durable by the journal: a batch is one record there, written together with the condition that this instance
still is the owner (its epoch) and that the batch before is the last.  Where the record lies afterwards does not matter:
its rows carry its number as their time, so writing them twice, late, or by an owner of yesterday changes nothing.
"""
