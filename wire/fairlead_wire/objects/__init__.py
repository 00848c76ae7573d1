"""Names, versions and digests of objects.

``api_group``  the API group of Fairlead's custom resources, and its annotations
``resource``   the name of an object as a Kubernetes REST path, and the order of resourceVersions
``digest``     the digest of an object's content, and the bucketed sums by which two stores are compared
"""
