"""The node's identity on disk, and the program that makes its keys.

    key_maker  ◀──stdin, stdout── keys     a child process: a key, a certificate request, a signature
    identity_files                         <data_dir>/identity: which pair of key and certificate is in use

The private key is made on this device and never leaves it.  ``cryptography`` costs 13 MiB of memory and is needed for
moments only, so the agent never imports it: ``keys`` asks a child process, which ends when it has answered.
"""
