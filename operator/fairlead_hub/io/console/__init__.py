"""Serves the console: ``fairlead_hub.console`` thinks, this acts.

console_pages   the addresses below /console/, their headers, and who is refused
event_stream    one stream for each open page, bounded in number, length and memory
live_source     at most one survey of the hub a second, in slices, however many pages are open
span_ring       the latest spans this hub recorded, where it records any
topic_watch     asks messaging about its topics while a page is open
"""
