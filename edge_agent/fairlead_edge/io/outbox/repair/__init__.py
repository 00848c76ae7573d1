"""Finds and repairs damage that a disk did to the outbox's file.

salvage  before the file is used: audit it, and copy what can be read of a damaged one to a new file
audit    checks whether the file is what was written to it
damage   replaces single damaged messages with a gap record and counts them; the scrubber
"""
