"""The client: what programs that publish and read messages install.

    methods ─requests→ request ─retry.send→ script of attempts and waits ─(io sends)→ response ─read→ result, or errors
    cursor            which page comes next          ┐
    publish_buffer    which batch is sent next       ├ build requests and keep what their answers mean
    transaction       what is done, undone, renewed  ┘

Nothing here does I/O: scripts yield steps, and ``io`` performs them with an event loop (``AsyncClient``) or without
one (``Client``).  The shapes of requests and answers are those of ``fairlead_messaging.api``.
"""
