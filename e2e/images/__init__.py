"""Container images without a container engine: the same content as the Containerfile, as archives for `ctr import`.

    build ──► layers   python · packages of one room · java and a shell (ingest) · our own code
      │         ├─ closure   which distributions a room's extra and `traces` bring, from what is installed here
      │         └─ native    which shared libraries those files ask of the system
      └─────► archive  layers and a configuration ─► one OCI tar

A layer is a folder packed as a tar whose bytes depend only on its content, so equal layers have equal digests and
the four images share layers. Archives are in the cache, named by a hash of all their inputs.
"""
