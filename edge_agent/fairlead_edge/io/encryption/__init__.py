"""The stores encrypted at rest: a stolen disk shows nothing without the key.

    opening      before the stores are opened: the operator's key (a file, or a systemd credential), and what to convert
    keyring      data keys, wrapped by the operator's key, in ``data_dir/encryption.keys``
    pages        pages of a SQLite file, to and from what lies on disk (AES-256-XTS, the page's number is its tweak)
    sealed_files a store's files under one data key: its pages, and small files beside it (AES-256-GCM)
    sealing      brings a folder's stores to what the settings want
    conversion   existing files to another data key, or to none, in place: killed at any moment it goes on

Only ``opening`` is imported where nothing is encrypted: ``cryptography`` costs 13 MiB.
"""
