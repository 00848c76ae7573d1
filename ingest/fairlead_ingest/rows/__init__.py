"""From a message's payload to the columns of a row, or to the reason why it becomes a dead letter.

envelope    payload → columns that every upstream message has
contract_file  a contract as its author writes it: JSON, TOML or DDL
contract    a contract: which columns are read from bodies, its routes, and what becomes of a body that does not fit
rules       what is asked of a column beyond its type: required, allowed values, bounds
ddl         the types in such a file, read without a Spark session
fitting     does a body fit its columns exactly, decided before Spark reads it; columns to add for unknown fields
column_looks  the same for the values of one column, dates, timestamps and time zones included
transforms  column expressions: typed columns, deduplication, lineage; the traces that rows belong to
letter_code code and fields of a dead letter
gap_record  what an edge agent sends in place of messages that its disk lost

transforms, envelope, contract_file ─▶ contract ─▶ fitting ─▶ column_looks ─▶ rules
letter_code ─▶ envelope        contract_file ─▶ ddl
"""
