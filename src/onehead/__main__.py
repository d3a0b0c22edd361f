"""``python -m onehead``."""

from onehead.cli.start import run

run()
