"""``onehead completion``: script with which a shell completes commands and flags."""

import click
from click.shell_completion import get_completion_class

from onehead.cli.rendering.terminal import print_lines

INSTALL_LINES = {
    "bash": 'eval "$(onehead completion bash)"    in ~/.bashrc',
    "zsh": 'eval "$(onehead completion zsh)"    in ~/.zshrc',
    "fish": "onehead completion fish > ~/.config/fish/completions/onehead.fish",
}


@click.command(
    help="Script for the shell, so that Tab completes commands and flags.\n\n\b\nAdd the line of your shell:\n  "
    + "\n  ".join(INSTALL_LINES.values()),
)
@click.argument("shell", type=click.Choice(list(INSTALL_LINES)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of one shell."""
    completion = get_completion_class(shell)
    assert completion is not None
    print_lines(*completion(ctx.find_root().command, {}, "onehead", "_ONEHEAD_COMPLETE").source().splitlines())
