"""A file that a disk damaged: found, and made sound again.

salvage  before the file is used: audit, and a new file with what can be read of a damaged one
audit    is the file what was written to it?
damage   single messages that the disk changed: removed, counted, a gap record in their place; the scrubber
"""
