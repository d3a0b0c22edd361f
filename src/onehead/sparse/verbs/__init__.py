"""What one can ask of sparse tokens: one file per question."""
