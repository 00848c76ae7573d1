"""The ordered key-value port on Cassandra, written by at most one instance of the service at any time.

    cassandra_kv   the store ─→ snapshots ─→ pages        reads rows, and layers over them
         ├─→ ownership ─→ journal                          who may write; a batch is durable with one conditional write
         ├─→ applier ─→ rows                               copies the journal to where it is read
         └─→ session                                       connections, errors with their remedies, tables

The journal makes batches atomic and durable: each is one record, written on the condition that this instance is still
the owner (its epoch) and that the previous batch is the last one.  The rows of a batch are written later, with its
number as their timestamp, so that writing them twice, late, or by a previous owner changes nothing.
"""
