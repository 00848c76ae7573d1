"""Delta tables through delta-rs, in folders and in object stores; this package is one ``TableFormat``.

opened       a table, open: a folder's anew each time, a store's kept
definition   columns, partitions, properties: made, grown
log_reader   last batch, positions, commit sequence: what a commit must know, from the log alone
log_writer   files of tasks, and the commit that names them
contents     files, rows, statistics
compaction   files joined or sorted, beside all who write
orphans      vacuum
store_log    the newest entries of a log in a store, one small object each

log_writer ─▶ log_reader ─▶ store_log
     └── definition, contents, orphans ──▶ opened
compaction ─▶ log_writer
"""

from fairlead_ingest.io.table.delta.contents import dataset as dataset
from fairlead_ingest.io.table.delta.contents import files as files
from fairlead_ingest.io.table.delta.contents import highest_ids as highest_ids
from fairlead_ingest.io.table.delta.contents import size as size
from fairlead_ingest.io.table.delta.definition import ensure as ensure
from fairlead_ingest.io.table.delta.log_reader import last_entries as last_entries
from fairlead_ingest.io.table.delta.log_reader import reached as reached
from fairlead_ingest.io.table.delta.log_reader import state as state
from fairlead_ingest.io.table.delta.log_reader import version as version
from fairlead_ingest.io.table.delta.log_writer import append as append
from fairlead_ingest.io.table.delta.log_writer import writing as writing
from fairlead_ingest.io.table.delta.opened import open_table as open_table
from fairlead_ingest.io.table.delta.orphans import vacuum as vacuum
