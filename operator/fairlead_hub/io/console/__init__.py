"""Serves the console: ``fairlead_hub.console`` renders, this package does the I/O.

console       the addresses below /console/, and one stream per open page, limited in number, length and memory
live_source   what pages show, while one is open: surveys of the hub in slices, and polls of messaging for its topics
span_ring     the latest spans of this hub, if it records any
"""
