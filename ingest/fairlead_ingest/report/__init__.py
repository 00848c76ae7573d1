"""The page that ``fairlead ingest report`` writes: contents of tables, their freshness, and the cost of their files.

    over_time   counts by time: messages published, ingested and waiting, and their delays
    facts       the facts on the page; files by size, and what small files cost readers
    plot        SVG plots of values over time, tables and bars
    page        everything as one HTML file

``io.table_report`` reads the tables; this package computes and draws. The page has no scripts and loads nothing, so it
still works when it is mailed or archived.
"""
