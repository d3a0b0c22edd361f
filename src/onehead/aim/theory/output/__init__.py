"""Output channels: from order parameters to conjugate fields, by averages over one sample."""
