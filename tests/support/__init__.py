"""What tests share: real programs, in-memory twins, and ways to break them.

``kube``     a real Kubernetes API           ``hubs``    hubs, real and in memory
``edges``    agents, their outbox and line   ``topics``  the messaging service
``tables``   tables, stores, Spark           ``joining`` certificates, and devices that join
``kills``    programs killed at each step    ``lines``   connections that are slow or lose packets

Here, for all of them: ``processes`` (start, poll, kill), ``dose``, ``pages``, ``golden``, ``spans`` and more.
"""
