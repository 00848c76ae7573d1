"""The newest row of each key, for example of each device: ``<table>_latest`` beside the table of rows.

    definition   what is a key, what is newer, what deletes
    newest       of rows, the newest of each key: in any order and repeated, the result is the same
    buckets      the latest table lies in files by a hash of the key; only those that change are written again
    row_changes  what the rows' log says has been added and taken away since a version
    mark         what each commit of the latest table records: which version of the rows it is made of, and what
                 has to be done to reach their newest one

The latest table is a function of the rows table at one of its versions and of nothing else; so whatever is interrupted,
repeated or done twice ends in the same table. ``io.latest`` reads and writes; nothing here does.
"""
