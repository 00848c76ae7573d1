"""fairlead_edge"""
