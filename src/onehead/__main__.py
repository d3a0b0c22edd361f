"""``python -m onehead``."""

from onehead.cli.main import run

run()
