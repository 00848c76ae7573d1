"""How a command reaches the program that it asks: its options, its address, its answers as sentences.

``edge_client``       an agent, on its node or through a tunnel: --url and --token-file
``hub_client``        a hub, over HTTP: --hub and --config
``messaging_client``  the messaging service: --url, --token-file, certificates

The API server is asked by the room ``cluster``.
"""
