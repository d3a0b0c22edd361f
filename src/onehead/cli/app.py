"""``onehead app``: the explorer in the browser, and as one file."""

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import click

from onehead.cli.groups import Guide
from onehead.cli.main import INTERRUPTED
from onehead.cli.output import note, print_json, progress
from onehead.cli.values import Number
from onehead.errors import InvalidArgument, MissingExtra
from onehead.files import check_file, check_folder
from onehead.numerics.interrupts import check

__all__ = ["command"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
BASE = "Address of an exported page, to which Copy link then points."


def _address(base: str) -> str:
    """An address that a browser opens, or none."""
    if base and (not base.startswith(("https://", "http://")) or any(c in base for c in " <>\"'\\")):
        raise InvalidArgument("--base", base, "an address that begins with https:// or http://")
    return base


# a command is not needed; versions of click say so in two ways
@click.group(cls=Guide, invoke_without_command=True, subcommand_metavar="[COMMAND] [ARGS]...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others can then reach it.")
@click.option(
    "--port", type=Number(whole=True, ge=0, le=65535), default=8050, show_default=True, help="Port; 0 takes a free one."
)
@click.option("--store", metavar="FILE", help="Where training runs are kept [the user's data folder].")
@click.option("--base", default="", metavar="URL", help=BASE)
@click.pass_context
def command(ctx: click.Context, host: str, port: int, store: str | None, base: str) -> None:
    """Turn the knobs and watch the head learn, in the browser.

    Example: onehead app --port 8050
    """
    if ctx.invoked_subcommand is not None:
        return
    for package in ("flask", "waitress"):  # before anything is said or loaded
        if find_spec(package) is None:
            raise MissingExtra(package, "app")
    if store is not None and not Path(store).resolve().parent.is_dir():
        raise InvalidArgument("--store", store, "a file in a folder that exists")
    base = _address(base)
    if host not in LOOPBACK:
        note(
            f"warning: listening on {host}, where other machines can reach it; there is no password, and every visitor "
            "can start training and send files."
        )
    note("loading …")
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        _serve(host, port, store, base)
        check()  # the server ends without a word of it
    note("ended.")


def _serve(host: str, port: int, store: str | None, base: str) -> None:
    """Serve until Ctrl-C; an address that cannot be used is said in one sentence."""
    from onehead.app.server import serve

    try:
        serve(
            host,
            port,
            store=Path(store) if store else None,
            base=base,
            ready=lambda url: note(f"the explorer is at {url}  (Ctrl-C ends it)"),
        )
    except (OSError, UnicodeError) as failure:  # taken, not ours, or no name of a machine at all
        why = getattr(failure, "strerror", None) or "it is not the name of a machine"
        raise InvalidArgument("--port", f"{host}:{port}", f"an address that is free ({why})") from None


@command.command("export")
@click.argument("folder", metavar="FOLDER")
@click.option("--base", default="", metavar="URL", help="Address under which the folder will be found.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON and nothing else.")
@click.pass_context
def export_page(ctx: click.Context, folder: str, base: str, as_json: bool) -> None:
    """Write the explorer as one file that works without a server, recorded over a grid of knobs, in a few minutes.

    Example: onehead app export page --base https://example.org/onehead/
    """
    base = _address(base or (ctx.parent.params["base"] if ctx.parent else ""))
    place = check_folder("FOLDER", folder)
    if place.is_dir():
        for name in ("index.html", "card.png"):
            check_file("FOLDER", place / name)
    from onehead.app.export import GRID, KEPT, export

    try:
        with progress("recording", GRID.total) as step:
            told = export(place, base=base, progress=step)
    except KeyboardInterrupt:
        note(f"onehead: interrupted; what is recorded is kept in {place / KEPT}; run the same command to go on.")
        raise click.exceptions.Exit(INTERRUPTED) from None
    if as_json:
        print_json(told)
        return
    note(
        f"open {told['page']}: {told['points']} points, {told['bytes'] / 1e6:.1f} MB; lines between solved points are at most "
        f"{told['interpolation_error']:.2%} off."
    )
