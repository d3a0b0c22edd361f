"""``onehead completion``: the script that lets a shell complete commands and flags."""

import click
from click.shell_completion import get_completion_class

from onehead.cli.terminal import say

__all__ = ["command"]

WHERE = {
    "bash": 'eval "$(onehead completion bash)"    in ~/.bashrc',
    "zsh": 'eval "$(onehead completion zsh)"    in ~/.zshrc',
    "fish": "onehead completion fish > ~/.config/fish/completions/onehead.fish",
}


@click.command(
    help="A script for the shell, so that Tab completes commands and flags.\n\n\b\nPut one of these lines where your shell starts:\n  "
    + "\n  ".join(WHERE.values()),
)
@click.argument("shell", type=click.Choice(list(WHERE)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script of one shell."""
    found = get_completion_class(shell)
    assert found is not None
    say(*found(ctx.find_root().command, {}, "onehead", "_ONEHEAD_COMPLETE").source().splitlines())
