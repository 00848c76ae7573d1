"""The stores encrypted at rest: a stolen disk shows nothing without the key.

    key_file   the operator's key: a file, or a systemd credential
    keyring    data keys, wrapped by the operator's key, in ``data_dir/encryption.keys``
    pages      one page of a SQLite file, to and from what lies on disk (AES-256-XTS, the page's number is its tweak)
    vfs        SQLite reads and writes its files and logs through ``pages``
    small_files  what lies beside the stores (AES-256-GCM)
    sealed_files a store's files: ``vfs`` and ``small_files`` of one data key
    conversion existing files to another data key, or to none, in place: killed at any moment it goes on
    opening    all of it before the stores are opened

Only ``key_file``, ``report`` and ``opening`` are imported where nothing is encrypted: ``cryptography`` costs 13 MiB.
"""
