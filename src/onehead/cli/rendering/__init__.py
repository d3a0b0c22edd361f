"""Output of the commands: tables, JSON, CSV files, pictures, progress bars and notes."""
