"""The node's identity: how a device obtains its certificate, stores it, and renews it.

    a person ─ fairlead edge join ─▶ join ─▶ join_client ──authorities, then token and request──▶ hub
                                      ├─▶ device    edge.toml, with its comments kept; the owner of the files
                                      └─▶ identity_files ◀── renewer ◀── keeper ◀── the agent
    key_maker  ◀──stdin, stdout── keys     a child process: a key, a certificate request, a signature
    identity_files                         <data_dir>/identity: which pair of key and certificate is in use
    last_session                           what the node remembers about its last session

The private key is made on this device and never leaves it.  ``cryptography`` costs 13 MiB of memory and is needed only
briefly, so the agent never imports it: ``keys`` runs a child process, which exits after its answer.
"""
