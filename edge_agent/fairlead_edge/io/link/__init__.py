"""The connection to the hub: ``link`` dials and dials again, ``conversation`` performs one session."""
