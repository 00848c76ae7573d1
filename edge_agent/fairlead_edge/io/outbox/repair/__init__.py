"""A file that a disk damaged: found, and made sound again.

    opening  before the file is used: audit ──▶ salvage when it is damaged
    audit    is the file what was written to it?
    damage   single messages that the disk changed: taken out, counted, a gap record in their place
    scrubber looks at everything that is held, now and then
    salvage  what can be read of a damaged file, in a new one

``statements`` has the SQL of these by name.
"""
