"""Commands of `fairlead ingest` beside `run`: they read a job's settings, its tables and topics; the job need not run.

    jobs          how far behind each job is, as the messaging service reports it
    tables        status, receipt, report, compact, vacuum, backfill
    latest        the newest row of each key
    letters       dead letters: summary, list, show, export
    repair        dead letters into rows
    check         a contract against messages, tables and its former version

``job_options`` is what they share: --config, --pipeline, and what is wrong with them.
"""
