"""The node's own certificate, decided without clocks of its own or files: ``io.identity`` acts.

certificate     when to ask the hub for the next one, how often to retry, and what the status says of it
clock           whether this device's wall clock can be trusted, and the earliest that the current time can be
settings_text   a settings file with some keys changed, and its comments as they were
"""
