"""The hub and the messaging service: what nodes publish, and what happens to the hub itself, as CloudEvents."""
