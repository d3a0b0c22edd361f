"""From the equations to the order parameters of a readout."""
