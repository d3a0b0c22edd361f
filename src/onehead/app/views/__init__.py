"""The views of the explorer, in the order of the page."""

from onehead.app.views.base import View

__all__ = ["VIEWS", "View"]


def _views() -> dict[str, View]:
    from onehead.app.views import checkpoint, curve, decay, head, pair, scaling, sparse, spectrum  # noqa: PLC0415

    return {
        module.VIEW.name: module.VIEW for module in (head, curve, spectrum, decay, pair, scaling, sparse, checkpoint)
    }


VIEWS: dict[str, View] = _views()
