"""Turns a message's payload into the columns of a row, or into the reason why it becomes a dead letter.

envelope    reads the columns that every upstream message has from a payload
contract_file  parses a contract's file: JSON, TOML or DDL
contract    a contract: the columns read from bodies, its routes, and how misfits are handled
rules       rules for a column's values: required, allowed values, bounds
ddl         parses types without a Spark session
fitting     decides before Spark reads a body whether it fits its columns exactly; columns for unknown fields
column_check  the same for the values of one column, including dates, timestamps and time zones
transforms  column expressions: typed columns, deduplication, lineage; the traces of rows
letter_code the code and fields of a dead letter
gap_record  messages with which an edge agent reports what its disk lost

transforms, envelope, contract_file ─▶ contract ─▶ fitting ─▶ column_check ─▶ rules
letter_code ─▶ envelope        contract_file ─▶ ddl
"""
