"""Reading of command-line arguments: click types, options made from declared parameters, and groups of commands."""
