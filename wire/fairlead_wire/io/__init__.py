"""I/O that all programs share: reading settings, listening, TLS, logging and tracing.

``settings``                   settings from a TOML file and the environment, also under other programs' names
``logs``                       logs as JSON, one object per line
``acceptor``                   listening sockets
``tls``, ``handshake``         mutual TLS, and the reasons for failed handshakes
``spans``, ``otlp``            spans of traces, and their export
"""
