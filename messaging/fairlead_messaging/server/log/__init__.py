"""A topic's messages: keys, rows, reading, counting."""
