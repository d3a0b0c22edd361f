"""The ``onehead`` program: finds the command, and turns every error into one line and an exit code."""

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from onehead import __version__
from onehead.approximation import without_approximation_warnings
from onehead.cli.rendering.terminal import note, safe_streams
from onehead.errors import InvalidArgument, MissingExtra, OneheadError
from onehead.numerics.interrupts import interrupt_count, raise_if_interrupted, record_interrupts
from onehead.sanitize import did_you_mean

# name -> (module, help); a module is imported only when its command is called, so that --version is fast
COMMANDS = {
    "demo": ("onehead.cli.demo", "A learning curve and a spectrum, predicted and trained, in about a minute."),
    "app": ("onehead.cli.app", "The explorer: change the parameters in the browser."),
    "aim": ("onehead.cli.aim.commands", "An attention head with weight decay: errors, spectra, scaling laws."),
    "sparse": ("onehead.cli.sparse.commands", "A weak signal in a few tokens: attention compared with linear models."),
    "sweep": ("onehead.cli.sweep", "Thousands of points, here or on a cluster; every finished one is kept."),
    "weights": ("onehead.cli.weights", "Heads of a real checkpoint compared with the predicted law."),
    "figures": ("onehead.cli.figures", "Every figure of the two papers, theory and training."),
    "cite": ("onehead.cli.cite", "References to cite, as BibTeX."),
    "completion": ("onehead.cli.completion", "Completion of commands and flags in your shell."),
}

BAD_ARGUMENT, FAILED_SOLVE, INTERRUPTED = 2, 1, 130
INTERRUPTED_MESSAGE = "interrupted; every file is either unchanged or complete."


class LazyGroup(click.Group):
    """Click group whose commands are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command, which contains a click command named ``command``."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and descriptions of the commands without importing them."""
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
      onehead aim predict --alpha 0.5 --explain    one head, explained
      onehead aim tune --alpha 0.5                 how much weight decay?
      onehead aim curve --alphas 0.05:2:46 --plot curve.png
      onehead sparse predict --model all           attention and linear models
    """


def run(arguments: list[str] | None = None) -> NoReturn:
    """Run the program and exit: code 0 on success, 2 for a bad argument, 1 for a failed solve, 130 after Ctrl-C."""
    before = interrupt_count()
    try:
        with record_interrupts(), safe_streams(), without_approximation_warnings():  # commands print them as notes
            code = cli.main(args=arguments, prog_name="onehead", standalone_mode=False)
            sys.stdout.flush()
            raise_if_interrupted()
    except (KeyboardInterrupt, click.Abort):
        code = _print_error(INTERRUPTED_MESSAGE, INTERRUPTED)
    except Exception as error:
        # compiled code can turn Ctrl-C into any error
        interrupted = interrupt_count() > before
        code = _print_error(INTERRUPTED_MESSAGE, INTERRUPTED) if interrupted else _explain_error(error)
    sys.exit(code if isinstance(code, int) else 0)


def _explain_error(error: Exception) -> int:
    """Print an error as one line and return its exit code; an error that is not the user's is raised again."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            note(*error.format_message().splitlines())
            return BAD_ARGUMENT
        case click.ClickException():
            return _print_error(_click_message(error), BAD_ARGUMENT)
        case InvalidArgument() | MissingExtra():
            return _print_error(str(error), BAD_ARGUMENT)
        case OneheadError():
            return _print_error(str(error), FAILED_SOLVE)
        case MemoryError():
            return _print_error(
                "the problem does not fit into the memory of this machine; make it smaller.", FAILED_SOLVE
            )
        case OSError(filename=None):  # standard output itself: Python would try to write to it again at exit
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            reason = error.strerror or str(error)
            return _print_error(f"the answer could not be printed ({reason}).", FAILED_SOLVE)
        case OSError():
            return _print_error(f"cannot use {error.filename!r}: {error.strerror}.", BAD_ARGUMENT)
    raise error


def _print_error(sentence: str, code: int) -> int:
    note(f"onehead: {sentence}")
    return code


def _click_message(error: click.ClickException) -> str:
    """Error of click as one sentence with the name, the value got and what is allowed."""
    context: Any = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "onehead"
    if isinstance(error, click.NoSuchOption):
        options = context.command.params if context is not None else []
        known = sorted(name for p in options if not getattr(p, "hidden", False) for name in p.opts)
        # compared without the dashes, which would make any two options look similar
        close = did_you_mean(error.option_name.lstrip("-"), [name.lstrip("-") for name in known])
        close = close.replace("did you mean ", "did you mean --")
        return f"{error.option_name} is not an option of '{command}'{close}; allowed: {', '.join(known) or '--help'}."
    if isinstance(error, click.MissingParameter) and error.param is not None:
        wanted = getattr(error.param, "help", None) or "see --help"  # an argument has one since click 8.5
        return f"{error.param.opts[0]} must be given: {wanted}".rstrip(".") + "."
    text = " ".join(error.format_message().split())
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{error.param.opts[0]} {error.message}".rstrip(".") + "."
    if text.startswith("No such command"):
        known = context.command.list_commands(context) if context is not None else list(COMMANDS)
        name = text.partition("'")[2].partition("'")[0]
        return f"No such command '{name}' in '{command}'{did_you_mean(name, known)}; allowed: {', '.join(known)}."
    return text
