"""Shared by the HTTP interfaces of all programs.

``openapi``           describes an interface as an OpenAPI document, from the table of its handlers
``content_encoding``  decompresses request bodies
``browser``           refuses requests from web pages to a local port
"""
