"""Serves the console: ``fairlead_hub.console`` renders, this package does the I/O.

console_pages   the addresses below /console/, their headers, and refusals
event_stream    one stream per open page, limited in number, length and memory
live_source     at most one survey of the hub per second, in slices, regardless of the number of open pages
span_ring       the latest spans of this hub, if it records any
topic_watch     polls messaging for its topics while a page is open
"""
