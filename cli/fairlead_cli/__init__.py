"""The command line: one program, `fairlead`, also installed as `kubectl-fairlead`.

    main ─┬─ hub | edge | messaging | ingest   run      starts a room's app, and imports it only then
          ├─ routes    list, check, eval, match        EdgeRoutes, and the route language tried out
          ├─ backoff   schedule, plot                  wire: the delivery policy
          └─ topics, status, explain, bench, ...       ``commands``: a module for each command, with `register(root)`
                   │
                   ├─ cluster         API server, namespace and objects, with kubectl's options: a request or a watch
                   ├─ clients         clients of agent, hub and messaging service, with their options
                   ├─ parameters      parameter types of several commands: a lifetime, a place in a topic, a policy
                   ├─ manifests       manifest files, and their mistakes with line and column
                   ├─ doctor          checks of a device or a cluster
                   ├─ simulated_node  a node in memory, on a real link
                   └─ output          tables, JSON, YAML, names, JSONPath; colours; watching; progress
                       └─ text        values as text: durations, YAML, untrusted text made harmless

Heavy modules are imported only by the commands that need them, so `fairlead --help` is fast and works without extras.
"""
