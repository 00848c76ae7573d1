"""What every program shares at its rim.

``settings``, ``other_names``  settings from a TOML file and the environment, also under other programs' names
``logs``                       one JSON object a line
``acceptor``                   ports that are listened on
``tls``, ``handshake``         mutual TLS, and handshakes that fail in words
``spans``, ``otlp``            spans of traces, and how they are sent
"""
