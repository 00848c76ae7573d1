"""Tables on disk behind one protocol, whatever they are made of.

table_format  the protocol, and what the formats have in common
delta         Delta tables through delta-rs, a room of its own
iceberg       Iceberg tables through pyiceberg, a room of its own
files         the Parquet files of one task
tables        a format by its name; a table's side tables and their schemas
object_store  objects by obstore: upload, read, write, probe
store_filesystem  a Parquet file in a store, read in ranges; a dataset of such files
arrow_threads what threads of pyarrow hold, and an end of the process that waits for them
store_errors  what a store answers, in a sentence with a code
maintenance   compaction, z-order, vacuum: of a pipeline's table, whatever its format
compaction    small files into large ones, or sorted ones, beside all who write; each format says how it commits
collisions    commits tried again where other writers were first
unique_append rows once by their identity, beside every other writer
receipt       is message X in the table

tables ─▶ delta ─▶ table_format ─▶ files
"""
