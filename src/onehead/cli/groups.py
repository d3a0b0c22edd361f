"""Groups of commands whose help leads a newcomer: commands in a sensible order, their first sentence uncut."""

import click

__all__ = ["Guide"]


class Guide(click.Group):
    """A group that lists its commands in the order in which they were written, each with its whole first sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which a newcomer should meet them."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Name and first sentence, wrapped instead of cut."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, " ".join((one.help or "").split("\n\n")[0].split())) for name, one in found if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
