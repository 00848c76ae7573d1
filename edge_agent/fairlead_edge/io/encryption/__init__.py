"""Encryption at rest: without the key, nothing can be read from a stolen disk.

    opening      before the stores are opened: reads the operator's key (a file, or a systemd credential)
    keyring      data keys, wrapped by the operator's key, in ``data_dir/encryption.keys``
    pages        encrypts the pages of a SQLite file (AES-256-XTS, with the page number as its tweak)
    sealed_files a store's files under one data key: its pages, and small files beside it (AES-256-GCM)
    sealing      brings a folder's stores to the state that the settings ask for
    conversion   converts files to another data key, or to none, in place; resumes after a crash

Only ``opening`` is imported where nothing is encrypted: ``cryptography`` costs 13 MiB.
"""
