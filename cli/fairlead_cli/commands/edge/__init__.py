"""Commands for one node: they ask its agent, or work on the files of a device that has none yet."""
