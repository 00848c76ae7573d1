"""Clients of the programs that commands ask: their options, addresses, and errors as sentences.

``edge_client``       an agent, on its node or through a tunnel: --url and --token-file
``hub_client``        a hub, over HTTP: --hub and --config
``messaging_client``  the messaging service: --url, --token-file, certificates

The client of the API server is in ``cluster``.
"""
