"""The command line: one program, `fairlead`, also installed as `kubectl-fairlead`.

    main ─┬─ hub | edge | messaging | ingest   run      starts a room's app (imported only then)
          ├─ routes    check, eval, match              edge: the route language, tried out
          ├─ backoff   schedule, plot                  wire: the delivery policy
          └─ topics, status, explain, bench, ...       ``commands``: a module for each noun, `register(root)` in each
                   │
                   ├─ cluster     which API server, namespace and objects: kubectl's options, one question or a watch
                   ├─ clients     which agent, hub or messaging service, and how it is asked
                   ├─ parameters  values that several commands take: a lifetime, a place in a topic, a policy
                   ├─ manifests   files of manifests, and their mistakes
                   ├─ doctor      what is wrong with a device or a cluster
                   ├─ simulation  a node in memory, on a real link
                   └─ output      tables, JSON, YAML, names, JSONPath; colour; following; progress
                       └─ text    values as text: durations, differences, texts of others made harmless

Nothing heavy is imported until a command needs it, so `fairlead --help` answers at once and works without extras.
"""
