"""Everything that touches disks, networks and clocks.

Packages: ``link`` (to the hub), ``local_api`` and ``mqtt`` (for programs on this node), ``objects`` and ``outbox`` (the
stores), ``sqlite`` and ``encryption`` (below the stores), ``identity`` (the node's certificate), ``moving`` (to another
hub).

Modules: ``agent`` runs everything; ``data_dir`` is the folder, ``opened_folder`` opens it with its stores;
``routes_in_use`` turns EdgeRoutes into the router; ``status_reporter`` collects the agent's status, ``status_sender``
sends the statuses that programs report of objects; ``durable_file`` replaces files atomically; ``service_manager``
talks to systemd; ``client`` is a client for programs on the node.
"""
