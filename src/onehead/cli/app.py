"""``onehead app``: the explorer, served to the browser or exported as one file."""

import errno
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import click

from onehead.atomic_io import check_file, check_folder
from onehead.cli.main import INTERRUPTED
from onehead.cli.parsing.groups import OrderedGroup
from onehead.cli.parsing.values import Number
from onehead.cli.rendering.output import print_json, progress
from onehead.cli.rendering.terminal import note
from onehead.errors import InvalidArgument, MissingExtra
from onehead.numerics.interrupts import raise_if_interrupted

LOOPBACK = ("127.0.0.1", "localhost", "::1")
BASE = "Address of an exported page; Copy link then points to it."


def _check_address(base: str) -> str:
    """Return an address that a browser can open, or an empty string; refuse anything else."""
    if base and (not base.startswith(("https://", "http://")) or any(c in base for c in " <>\"'\\")):
        raise InvalidArgument("--base", base, "an address that begins with https:// or http://")
    return base


# the metavar says that a command is optional, which versions of click write in two ways
@click.group(cls=OrderedGroup, invoke_without_command=True, subcommand_metavar="[COMMAND] [ARGS]...")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; any but the default lets other machines connect.",
)
@click.option(
    "--port",
    type=Number(integer=True, ge=0, le=65535),
    default=8050,
    show_default=True,
    help="Port; 0 takes any free one.",
)
@click.option("--store", metavar="FILE", help="File that keeps training runs [in the user's data folder].")
@click.option("--base", default="", metavar="URL", help=BASE)
@click.pass_context
def command(ctx: click.Context, host: str, port: int, store: str | None, base: str) -> None:
    """Explorer in the browser: change parameters and watch the head learn.

    Example: onehead app --port 8050
    """
    if ctx.invoked_subcommand is not None:
        return
    for package in ("flask", "waitress"):  # before anything is printed or loaded
        if find_spec(package) is None:
            raise MissingExtra(package, "app")
    if store is not None and not Path(store).resolve().parent.is_dir():
        raise InvalidArgument("--store", store, "a file in a folder that exists")
    base = _check_address(base)
    if host not in LOOPBACK:
        note(
            f"warning: listening on {host}, where other machines can reach it; there is no password, and every visitor "
            "can start training and send files."
        )
    note("loading …")
    with suppress(KeyboardInterrupt):  # Ctrl-C ends the server
        _serve(host, port, store, base)
        raise_if_interrupted()  # the server may have swallowed Ctrl-C
    note("ended.")


def _serve(host: str, port: int, store: str | None, base: str) -> None:
    """Serve until Ctrl-C."""
    from onehead.app.server.application import serve

    try:
        serve(
            host,
            port,
            store=Path(store) if store else None,
            base=base,
            ready=lambda url: note(f"the explorer is at {url}  (Ctrl-C ends it)"),
        )
    except (OSError, UnicodeError) as error:  # UnicodeError: not a valid name of a machine
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise click.UsageError(f"Port {port} is in use; choose another, or --port 0 for any free one.") from None
        reason = getattr(error, "strerror", None) or "not a valid name of a machine"
        raise click.UsageError(
            f"cannot listen on {host}, port {port} ({reason}); choose another --host or --port."
        ) from None


@command.command("export")
@click.argument("folder", metavar="FOLDER")
@click.option("--base", default="", metavar="URL", help="Address under which the folder will be published.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON and nothing else.")
@click.pass_context
def export_page(ctx: click.Context, folder: str, base: str, as_json: bool) -> None:
    """Write the explorer as one file that works without a server, with answers computed in advance.

    Example: onehead app export page --base https://example.org/onehead/
    """
    base = _check_address(base or (ctx.parent.params["base"] if ctx.parent else ""))
    target = check_folder("FOLDER", folder)
    if target.is_dir():
        for name in ("index.html", "card.png"):
            check_file("FOLDER", target / name)
    from onehead.app.export import PARTIAL_FOLDER, check_not_replaced, export
    from onehead.app.recording import GRID

    check_not_replaced(target)
    try:
        with progress("recording", GRID.total) as step:
            summary = export(target, base=base, progress=step)
    except KeyboardInterrupt:
        note(
            f"onehead: interrupted; recorded points are kept in {target / PARTIAL_FOLDER}; "
            "run the same command to go on."
        )
        raise click.exceptions.Exit(INTERRUPTED) from None
    if as_json:
        print_json(summary)
        return
    note(
        f"open {summary['page']}: {summary['points']} points, {summary['bytes'] / 1e6:.1f} MB; "
        f"between computed points lines are off by at most {summary['interpolation_error']:.2%}."
    )
