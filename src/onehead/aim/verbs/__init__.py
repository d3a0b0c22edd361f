"""What people ask of a head, one file per verb."""
