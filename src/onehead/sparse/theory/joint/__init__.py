"""Equations of query and readout trained together or on the same data (J1 to J34).

The staged protocol, whose query and readout see different samples, belongs to the folder above.
"""
