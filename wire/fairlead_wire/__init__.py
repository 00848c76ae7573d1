"""fairlead_wire"""
