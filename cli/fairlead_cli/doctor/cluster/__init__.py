"""The cluster side.

installation  definitions, rights, quotas and certificates
programs      hub and messaging: Leases, Pods, readiness, versions
objects       SyncRules, EdgeRoutes and nodes
examine       the list of checks; asks the API for what each of them needs
"""
