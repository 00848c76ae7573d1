"""Hubs: the core in memory, the program, one that a test speaks for, one of a release."""
