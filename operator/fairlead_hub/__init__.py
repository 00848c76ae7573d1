"""fairlead_hub"""
