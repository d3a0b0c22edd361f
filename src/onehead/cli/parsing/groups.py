"""Group of commands whose help lists them in a chosen order, each with its whole first sentence."""

from collections.abc import Callable, Mapping
from typing import Any

import click


class OrderedGroup(click.Group):
    """Click group that lists its commands in the order of their definition, with uncut help.

    Parameters
    ----------
    lazy_commands : mapping, optional
        Commands of other modules, from their names to functions that import and return them when they are used.
    """

    def __init__(
        self, *args: Any, lazy_commands: Mapping[str, Callable[[], click.Command]] | None = None, **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.lazy_commands = dict(lazy_commands or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands: first those of this module, then the lazy ones."""
        return [*self.commands, *self.lazy_commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Command with this name; a lazy one is imported."""
        if cmd_name not in self.lazy_commands:
            return super().get_command(ctx, cmd_name)
        return self.lazy_commands[cmd_name]()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write name and first paragraph of every command, wrapped instead of cut."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, " ".join((one.help or "").split("\n\n")[0].split())) for name, one in found if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
