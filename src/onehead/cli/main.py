"""The ``onehead`` program: finds the command, and turns every failure into one line and an exit code."""

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from onehead import __version__
from onehead.cli.terminal import note, spoken
from onehead.errors import InvalidArgument, MissingExtra, OneheadError
from onehead.numerics.interrupts import check, heard, presses
from onehead.text import likely

__all__ = ["cli", "run"]

# name -> (module, help); a module is imported when its command is called, so that --version stays fast
COMMANDS = {
    "demo": ("onehead.cli.demo", "A learning curve and a spectrum, predicted and trained, in a minute."),
    "app": ("onehead.cli.app", "The explorer: turn the knobs in the browser."),
    "aim": ("onehead.cli.aim", "An attention head with weight decay: errors, spectra, scaling laws."),
    "sparse": ("onehead.cli.sparse", "A weak signal in a few tokens: attention against linear models."),
    "sweep": ("onehead.cli.sweep", "Thousands of points that survive Ctrl-C, here or on a cluster."),
    "weights": ("onehead.cli.weights", "The heads of a real checkpoint beside the predicted law."),
    "figures": ("onehead.cli.figures", "Every figure of the two papers, theory and training."),
    "cite": ("onehead.cli.cite", "What to cite, as BibTeX."),
    "completion": ("onehead.cli.completion", "Let your shell complete commands and flags."),
}

BAD_ARGUMENT, FAILED_SOLVE, INTERRUPTED = 2, 1, 130
STOPPED = "interrupted; files that were there before are as they were, or whole new ones."


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which a newcomer should meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module; it holds a click command named ``command``."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", message="onehead %(version)s")
def cli() -> None:
    """One attention head, solved exactly.

    Predicts, without training anything, how a single attention layer generalises, which spectrum its
    trained weights have and how much data it needs.

    \b
    Begin with:
      onehead aim predict --alpha 0.5 --explain    one head, in words
      onehead aim tune --alpha 0.5                 how much weight decay?
      onehead aim curve --alphas 0.05:2:46 --plot curve.png
      onehead sparse predict --model all           attention against linear models
    """


def run(arguments: list[str] | None = None) -> NoReturn:
    """Run the program; exit code 0 on success, 2 for a bad argument, 1 for a solve that failed, 130 after Ctrl-C."""
    before = presses()
    try:
        with heard(), spoken():
            code = cli.main(args=arguments, prog_name="onehead", standalone_mode=False)
            sys.stdout.flush()
            check()
    except (KeyboardInterrupt, click.Abort):
        code = _complain(STOPPED, INTERRUPTED)
    except Exception as failure:
        code = (
            _complain(STOPPED, INTERRUPTED) if presses() > before else _told(failure)
        )  # Ctrl-C can come out as any error
    sys.exit(code if isinstance(code, int) else 0)


def _told(failure: Exception) -> int:
    """Say what went wrong, and the exit code for it; what is no mistake of the user's is raised again."""
    match failure:
        case click.exceptions.NoArgsIsHelpError():
            note(*failure.format_message().splitlines())
            return BAD_ARGUMENT
        case click.ClickException():
            return _complain(_one_line(failure), BAD_ARGUMENT)
        case InvalidArgument() | MissingExtra():
            return _complain(str(failure), BAD_ARGUMENT)
        case OneheadError():
            return _complain(str(failure), FAILED_SOLVE)
        case MemoryError():
            return _complain("the problem does not fit into the memory of this machine; make it smaller.", FAILED_SOLVE)
        case OSError(filename=None):  # no file of ours: standard output itself, which Python would try again at the end
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            reason = failure.strerror or str(failure)
            return _complain(f"the answer could not be printed ({reason}).", FAILED_SOLVE)
        case OSError():
            return _complain(f"cannot use {failure.filename!r}: {failure.strerror}.", BAD_ARGUMENT)
    raise failure


def _complain(sentence: str, code: int) -> int:
    note(f"onehead: {sentence}")
    return code


def _one_line(failure: click.ClickException) -> str:
    """Say what click found wrong as one sentence: the name, the value got, what is allowed."""
    context: Any = getattr(failure, "ctx", None)
    command = context.command_path if context is not None else "onehead"
    if isinstance(failure, click.NoSuchOption):
        known = sorted(name for p in context.command.params for name in p.opts) if context is not None else []
        close = likely(failure.option_name, known)
        return f"{failure.option_name} is not an option of '{command}'{close}; allowed: {', '.join(known)}."
    if isinstance(failure, click.MissingParameter) and failure.param is not None:
        wanted = getattr(failure.param, "help", None) or "see --help"  # an argument has one since click 8.5
        return f"{failure.param.opts[0]} must be given: {wanted}".rstrip(".") + "."
    text = " ".join(failure.format_message().split())
    if isinstance(failure, click.BadParameter) and failure.param is not None:
        return f"{failure.param.opts[0]} {failure.message}".rstrip(".") + "."
    if text.startswith("No such command"):
        known = context.command.list_commands(context) if context is not None else list(COMMANDS)
        word = text.partition("'")[2].partition("'")[0]
        return f"No such command '{word}' in '{command}'{likely(word, known)}; allowed: {', '.join(known)}."
    return text
