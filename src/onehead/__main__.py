"""Command line of onehead, started by ``python -m onehead``."""

from onehead.cli.start import run

run()
