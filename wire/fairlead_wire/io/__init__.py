"""What every program shares in reading files, listening, connecting and logging.

``settings``                   settings from a TOML file and the environment, also under other programs' names
``logs``                       one JSON object a line
``acceptor``                   ports that are listened on
``tls``, ``handshake``         mutual TLS, and reasons for failed handshakes
``spans``, ``otlp``            spans of traces, and how they are sent
"""
