"""``onehead app``: the explorer in the browser."""

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import click

from onehead.cli.output import note
from onehead.cli.values import Number
from onehead.errors import InvalidArgument, MissingExtra
from onehead.numerics.interrupts import check

__all__ = ["command"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others can then reach it.")
@click.option(
    "--port", type=Number(whole=True, ge=0, le=65535), default=8050, show_default=True, help="Port; 0 takes a free one."
)
@click.option("--store", metavar="FILE", help="Where training runs are kept [the user's data folder].")
def command(host: str, port: int, store: str | None) -> None:
    """Turn the knobs and watch the head learn, in the browser.

    Example: onehead app --port 8050
    """
    for package in ("flask", "waitress"):  # before anything is said or loaded
        if find_spec(package) is None:
            raise MissingExtra(package, "app")
    if store is not None and not Path(store).resolve().parent.is_dir():
        raise InvalidArgument("--store", store, "a file in a folder that exists")
    if host not in LOOPBACK:
        note(
            f"warning: listening on {host}, where other machines can reach it; there is no password, and every visitor "
            "can start training and send files."
        )
    note("loading …")
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        _serve(host, port, store)
        check()  # the server ends without a word of it
    note("ended.")


def _serve(host: str, port: int, store: str | None) -> None:
    """Serve until Ctrl-C; an address that cannot be used is said in one sentence."""
    from onehead.app.server import serve

    try:
        serve(
            host,
            port,
            store=Path(store) if store else None,
            ready=lambda url: note(f"the explorer is at {url}  (Ctrl-C ends it)"),
        )
    except (OSError, UnicodeError) as failure:  # taken, not ours, or no name of a machine at all
        why = getattr(failure, "strerror", None) or "it is not the name of a machine"
        raise InvalidArgument("--port", f"{host}:{port}", f"an address that is free ({why})") from None
