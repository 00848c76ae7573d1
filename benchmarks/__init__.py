"""How fast, how dear and how large: each promise of ``goals`` is measured by a module ``bench_*`` of its room.

    make bench                  all rooms, one table and bench.json
    make bench ONLY=ingest      one room
    make cost                   what reliability costs, as a page with a picture

Rooms: ``downstream``, ``upstream``, ``messaging``, ``ingest`` and ``cost``.  Some modules there are programs of their
own for figures in docs/howto (``python -m benchmarks.ingest.executors``); their first lines say how they are started.
"""
