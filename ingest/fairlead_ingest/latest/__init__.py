"""The newest row of each key, for example of each device: ``<table>_latest`` beside the table of rows.

    definition   what is a key, what is newer, what deletes
    newest       the newest row of each key: in any order and repeated, the result is the same; the table lies in
                 files by a hash of the key, and only those that change are written again
    mark         what each commit of the latest table records: which version of the rows it is made of, what changed
                 since, and what has to be done to reach their newest one

The latest table is a function of the rows table at one of its versions and of nothing else; so whatever is interrupted,
repeated or done twice ends in the same table. ``io.latest`` reads and writes; nothing here does.
"""
