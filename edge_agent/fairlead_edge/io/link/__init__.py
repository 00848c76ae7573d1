"""The connection to the hub: ``link`` keeps it up, ``dialler`` opens one, ``conversation`` runs a session over it."""
