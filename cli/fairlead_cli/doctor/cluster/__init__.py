"""The cluster side: definitions, rights, hub and messaging, rules, nodes, authorities, quotas.

definitions, rights, programs, objects, authorities, quotas     judges: documents of the API ─▶ findings
examine                                                         asks the API for what each judge needs
"""
