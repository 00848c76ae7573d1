"""Acts: disks, sockets, clocks and threads of the service."""
