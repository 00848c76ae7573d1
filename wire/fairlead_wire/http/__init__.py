"""What HTTP interfaces of all programs share.

``openapi``  an interface as an OpenAPI document, made from the table of its handlers
``content_encoding``  bodies that came packed
``browser``  web pages that ask a local port, told from local programs
"""
