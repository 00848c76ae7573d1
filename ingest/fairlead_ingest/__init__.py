"""fairlead_ingest"""
