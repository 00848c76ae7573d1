"""Values that people type and several commands take: a lifetime, a place in a topic, a delivery policy."""
