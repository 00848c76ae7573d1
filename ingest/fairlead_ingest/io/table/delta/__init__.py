"""Delta tables through delta-rs, in folders and in object stores; this package is one ``TableFormat``.

delta_table  opens and creates tables; columns and properties, files and rows, vacuum
log_reader   reads from the log what a commit must know: last batch, positions, commit sequence
log_writer   commits the files of tasks
compaction   joins small files or sorts rows while others write

compaction ─▶ log_writer ─▶ log_reader ─▶ delta_table
"""

from fairlead_ingest.io.table.delta.delta_table import dataset as dataset
from fairlead_ingest.io.table.delta.delta_table import ensure as ensure
from fairlead_ingest.io.table.delta.delta_table import files as files
from fairlead_ingest.io.table.delta.delta_table import highest_ids as highest_ids
from fairlead_ingest.io.table.delta.delta_table import open_table as open_table
from fairlead_ingest.io.table.delta.delta_table import size as size
from fairlead_ingest.io.table.delta.delta_table import vacuum as vacuum
from fairlead_ingest.io.table.delta.log_reader import last_entries as last_entries
from fairlead_ingest.io.table.delta.log_reader import reached as reached
from fairlead_ingest.io.table.delta.log_reader import state as state
from fairlead_ingest.io.table.delta.log_reader import version as version
from fairlead_ingest.io.table.delta.log_writer import append as append
from fairlead_ingest.io.table.delta.log_writer import writing as writing
