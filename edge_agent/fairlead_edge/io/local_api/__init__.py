"""The HTTP server for applications and clients on this node.

listener (connections) ──▶ server (access) ──▶ objects_api (watches), status_api, publish_api

``operations`` is the table of all calls; ``bodies`` and ``agent_account`` have the types of requests and responses.
"""
