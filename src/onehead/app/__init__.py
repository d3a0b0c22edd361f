"""The explorer: a web page on which parameters are set with knobs and predictions are redrawn at once.

`onehead app` starts it. A view (`onehead.app.views`) is a set of pure functions of the state of the page; the state,
its bounds and its address are in `onehead.app.state`; the web server is in `onehead.app.server`, scripts and styles in
``assets``. No theory belongs here: every number comes from `onehead.aim`, `onehead.sparse` or `onehead.weights`.
"""

from onehead.app.state import State, read_state
from onehead.app.views import VIEWS

__all__ = ["VIEWS", "State", "read_state"]
