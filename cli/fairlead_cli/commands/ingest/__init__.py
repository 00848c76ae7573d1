"""Commands of `fairlead ingest` besides `run`: they read a job's settings, tables and topics, without the job itself.

    jobs          how far behind each job is, as the messaging service reports it
    tables        status, receipt, report, compact, vacuum, backfill
    latest        the newest row of each key
    letters       dead letters: summary, list, show, export
    repair        turns dead letters into rows
    check         tries a contract on messages, tables and its previous version

``job_options`` has the shared options --config and --pipeline, and the handling of errors.
"""
