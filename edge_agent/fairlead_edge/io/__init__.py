"""Acts: everything that touches disk, net and clock.

Rooms: ``link`` (the hub), ``local_api`` and ``mqtt`` (programs on this node), ``objects`` and ``outbox`` (what is
stored), ``sqlite`` and ``encryption`` (how), ``identity`` (the node's certificate), ``moving`` (to another hub).

Here: ``agent`` is everything that runs; ``data_dir`` is the folder, ``opened_folder`` opens it with its stores;
``routes_in_use`` turns EdgeRoutes into the router; ``status_reporter`` reads all parts, ``status_sender`` sends what
programs report of objects; ``durable_file`` replaces a file whole or not at all; ``service_manager`` speaks with
systemd; ``client`` is what programs on the node import.
"""
