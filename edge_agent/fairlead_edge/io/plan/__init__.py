"""The data plan of the line, kept: ``line_meter`` counts what the kernel carried, ``day_file`` remembers the day's
count beside the stores, and ``data_plan`` joins both with the gate that the pump asks (``outbox.plan``).
"""
