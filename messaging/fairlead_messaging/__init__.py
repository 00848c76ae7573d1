"""fairlead_messaging"""
