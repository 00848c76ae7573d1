"""Producers: each message of a producer is stored once, however often it is sent.

    publish ─(id, epoch, sequences)→ producer   is this epoch still welcome (fence)?
                                 └─→ table ─→ sequences   which numbers are stored already, in pages of intervals

Numbers are known exactly, with any number of gaps; they are written in the batch that stores their messages, so both
are durable or neither is.  The table holds what the writer needs again soon; everything can be read from the store.
"""
