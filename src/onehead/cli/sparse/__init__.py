"""Commands of sparse-token classification (``onehead sparse``)."""
