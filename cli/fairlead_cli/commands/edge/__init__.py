"""Commands for one node, which ask its agent or work on the device's files."""
