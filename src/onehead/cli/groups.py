"""Groups of commands whose help leads a newcomer: commands in a sensible order, their first sentence uncut."""

from collections.abc import Callable, Mapping
from typing import Any

import click

__all__ = ["Guide"]


class Guide(click.Group):
    """A group that lists its commands in the order in which they were written, each with its whole first sentence.

    ``others`` are commands of other modules, which are loaded when they are called: name -> what loads it.
    """

    def __init__(
        self, *args: Any, others: Mapping[str, Callable[[], click.Command]] | None = None, **words: Any
    ) -> None:
        super().__init__(*args, **words)
        self.others = dict(others or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which a newcomer should meet them."""
        return [*self.commands, *self.others]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command of this module, or of another."""
        if cmd_name not in self.others:
            return super().get_command(ctx, cmd_name)
        return self.others[cmd_name]()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Name and first sentence, wrapped instead of cut."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, " ".join((one.help or "").split("\n\n")[0].split())) for name, one in found if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
