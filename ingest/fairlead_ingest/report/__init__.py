"""The page that `fairlead ingest report` writes: what tables hold, how fast they follow, and what their files cost.

    over_time   counts by time: what arrived, what was taken in, what waited, how long it took
    facts       what the page says; files by size, and what a reader pays for small ones
    plot        values over time as a picture (SVG), tables and bars
    page        all of it as one file of HTML

Nothing here reads a table: ``io.table_report`` counts, this package computes and draws. No script, no file beside the
page, nothing loaded from elsewhere: a page that is mailed or archived must still show everything in ten years.
"""
