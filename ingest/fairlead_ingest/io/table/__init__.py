"""Tables of several formats behind one protocol.

table_format  the protocol, and what the formats have in common
delta         Delta tables, with delta-rs
iceberg       Iceberg tables, with pyiceberg
files         the Parquet files of one task
tables        finds a format by its name; a table's side tables and their schemas
object_store  uploads, reads, writes and probes objects, with obstore
store_filesystem  reads Parquet files in a store by ranges; a dataset of such files
arrow_threads waits at exit for objects held by pyarrow's threads
store_errors  explains a store's answers with a code and a sentence
maintenance   compaction, z-order and vacuum of a pipeline's tables
compaction    joins small files, or sorts rows, concurrently with other writers
collisions    retries commits when another writer was first
unique_append adds rows once by their identity, concurrently with other writers
receipt       finds out whether a message is in the table

tables ─▶ delta ─▶ table_format ─▶ files
"""
