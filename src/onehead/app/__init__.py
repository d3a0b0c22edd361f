"""The explorer: a page in the browser where a knob is turned and the exact prediction changes at once.

`onehead app` starts it. A view (`onehead.app.views`) is a few pure functions of the state of the page; the state itself, its
bounds and its address are in `onehead.app.state`; everything that belongs to the browser is in `onehead.app.server`.
"""

from onehead.app.state import State, read_state
from onehead.app.views import VIEWS

__all__ = ["VIEWS", "State", "read_state"]
