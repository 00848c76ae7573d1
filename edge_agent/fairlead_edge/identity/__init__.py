"""Decisions about the node's certificate, without I/O; ``io.identity`` acts.

certificate     when to ask the hub for the next one, how often to retry, and what the status says about it
clock           whether this device's wall clock can be trusted, and the earliest that the current time can be
settings_text   changes keys of a settings file and leaves everything else, comments too, as it is
"""
