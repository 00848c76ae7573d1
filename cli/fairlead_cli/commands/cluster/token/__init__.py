"""`fairlead token`: a module for each of its commands.

group ─┬─ create ── requested    whom the tokens shall admit, checked before the first is made
       ├─ listing                the table, for `create -o`, too
       └─ revoke
"""
