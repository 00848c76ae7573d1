"""The newest row of each key, for example of each device: ``<table>_latest`` beside the table of rows.

    definition   the key, the order, and which rows delete a key
    newest       the newest row of each key, independent of order and repetition; the bucket (file) of each key
    mark         what each commit of the latest table records: the version of the rows it reflects; from that, what
                 changed since and what to do

The latest table depends only on one version of the rows table, so an interrupted, repeated or duplicated refresh ends
in the same table. ``io.latest`` does the reading and writing.
"""
