"""The command line: one program, `fairlead`, also installed as `kubectl-fairlead`.

    main ─┬─ hub | edge | messaging | ingest   run      starts a room's app, and imports it only then
          ├─ routes    check, eval, match              edge: try out the route language
          ├─ backoff   schedule, plot                  wire: the delivery policy
          └─ topics, status, explain, bench, ...       ``commands``: a module for each command, with `register(root)`
                   │
                   ├─ cluster         which API server, namespace and objects: kubectl's options, one request or a watch
                   ├─ clients         which agent, hub or messaging service to ask, and how
                   ├─ parameters      values that several commands take: a lifetime, a place in a topic, a policy
                   ├─ manifests       files of manifests, and their mistakes with line and column
                   ├─ doctor          checks of a device or a cluster
                   ├─ simulated_node  a node in memory, on a real link
                   └─ output          tables, JSON, YAML, names, JSONPath; colours; watching; progress
                       └─ text        values as text: durations, YAML, untrusted text made harmless

Nothing heavy is imported until a command needs it, so `fairlead --help` answers at once and works without extras.
"""
