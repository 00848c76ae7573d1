"""Which sequence numbers of a producer are stored already."""
