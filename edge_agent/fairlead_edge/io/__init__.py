"""Acts: everything that touches disk, net and clock.

Rooms: ``link`` (the hub), ``local_api`` and ``mqtt`` (programs on this node), ``objects`` and ``outbox`` (what is
stored), ``sqlite`` and ``encryption`` (how), ``identity`` (the node's certificate), ``moving`` (to another hub).

Here: ``data_dir`` is the folder, ``opened_folder`` opens it with its stores, ``first_failure`` ends the program;
``routes_in_use`` turns EdgeRoutes into the router, ``status_reporter`` reads all parts; ``service_manager`` speaks with
systemd; ``client`` is what programs on the node import.
"""
