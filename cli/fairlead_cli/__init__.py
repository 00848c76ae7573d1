"""fairlead_cli"""
