"""The messaging service: its core in memory, over HTTP, as a program, with access; topics and hostile messages."""
