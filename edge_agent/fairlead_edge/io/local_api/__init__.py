"""The HTTP server for applications and clients on this node.

listener (connections) ──▶ server ──▶ objects_api (watches), publish_api
"""
