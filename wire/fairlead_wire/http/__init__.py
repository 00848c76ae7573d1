"""What HTTP interfaces of all programs share.

``openapi``  an interface as an OpenAPI document, made from the table of its handlers
``content_encoding``  unpacks compressed bodies
``browser``  refuses requests of web pages to a local port
"""
