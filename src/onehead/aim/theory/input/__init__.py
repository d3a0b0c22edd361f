"""Input channels: from conjugate fields to the order parameters of the trained map."""
