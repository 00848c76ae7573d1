"""Builds the files of a release in a folder: `make packages`, `make release`.

    source ──► python_packages   wheel, sdist
       │   ──► deb                the agent for Debian: unit, settings, what it needs of Python's packages
       │   ──► charts             both charts as Helm reads them
       │   ──► images             OCI archives (e2e.images makes their layers)
       │           └─ sbom        what lies in the package for Debian and in each image
       └──────► provenance        which source and builder made which bytes, and SHA256SUMS

Every file depends on the commit and on the installed packages alone: made twice, in other folders, with another umask
and at another time, the bytes are the same.
"""
