"""The node's own certificate, decided without clocks of its own or files: ``io.identity`` acts.

renewal   when to ask the hub for the next one, and how often again
clock     whether this device's wall clock may be believed, and what is the earliest the present can be
settings_text   a settings file with some keys changed, and its comments as they were
"""
