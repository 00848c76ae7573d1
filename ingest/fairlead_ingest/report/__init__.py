"""The page that `fairlead ingest report` writes: what tables hold, how fast they follow, and what their files cost.

    delays      how long messages took, counted in buckets that add up
    over_time   counts by time: what arrived, what was taken in, what waited, how long it took
    layout      files by size, and what a reader pays for small ones
    plot        values over time as a picture (SVG)
    page        all of it as one file of HTML

Nothing here reads a table: ``io.report`` counts, this room computes and draws. No script, no file beside the page,
nothing loaded from elsewhere: a page that is mailed or archived must still show everything in ten years.
"""
