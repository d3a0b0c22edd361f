"""Commands of the attention-indexed model (``onehead aim``)."""
