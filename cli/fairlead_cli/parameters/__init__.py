"""Values that people type and several commands take: a lifetime, an address, a place in a topic, a delivery policy."""
