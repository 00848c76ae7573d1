"""The connection to the hub: ``link`` dials (``dialler``) and dials again, ``conversation`` performs one session."""
