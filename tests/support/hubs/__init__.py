"""Hubs: the core in memory, the real program, one that a test controls, and one of a release."""
