"""How both ends know one object from another.

``resource``  its name, as its Kubernetes REST path
``version``   order of resourceVersions
``digest``    the digest of its content, and the bucketed sum by which two stores find where they differ
"""
