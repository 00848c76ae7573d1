"""From a message's payload to the columns of a row, or to the reason why it becomes a dead letter.

envelope    payload → columns that every upstream message has
contract_file  a contract as its author writes it: JSON, TOML or DDL
schema      a contract: which columns are read from bodies, and what becomes of a body that does not fit
routing     which route of a contract a message belongs to
rules       what is asked of a column beyond its type: required, allowed values, bounds
ddl         the types in such a file, read without a Spark session
fitting     does a body fit its columns exactly; decided before Spark reads it
column_looks  the same for the values of one column
moments     dates, timestamps and time zones as texts
transforms  column expressions: typed columns, deduplication, lineage
letter_code code and fields of a dead letter
gap_record  what an edge agent sends in place of messages that its disk lost
row_traces  the traces that rows belong to
evolution   fields of bodies that no column takes yet, and the columns to add for them

transforms, envelope, contract_file ─▶ schema ─▶ fitting, routing ─▶ column_looks ─▶ rules, moments
letter_code ─▶ envelope        contract_file ─▶ ddl
"""
