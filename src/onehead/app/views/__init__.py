"""The views of the explorer, one module each, in the order of the page.

A view turns results of `onehead.aim`, `onehead.sparse` or `onehead.weights` into pictures, numbers and code; it solves
nothing.
"""

from onehead.app.views.base import View

__all__ = ["VIEWS", "View"]


def _views() -> dict[str, View]:
    from onehead.app.views import (
        checkpoint,
        curve,
        head,
        scaling,
        sparse,
        spectrum,
        training_time,
        two_parameter_map,
        weight_decay,
    )

    return {
        module.VIEW.name: module.VIEW
        for module in (
            head,
            curve,
            spectrum,
            training_time,
            weight_decay,
            two_parameter_map,
            scaling,
            sparse,
            checkpoint,
        )
    }


VIEWS: dict[str, View] = _views()
