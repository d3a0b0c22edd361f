"""The theory of sparse tokens, equation by equation."""
