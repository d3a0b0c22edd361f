"""One explorer for all tests of a file, and a client that comes from this machine."""

import pytest
from flask.testing import FlaskClient

from onehead.app.server import Explorer

HERE = {"Host": "127.0.0.1:1"}


class Neighbour(FlaskClient):
    """Asks as the page itself does, unless told otherwise."""

    def open(self, *given, headers=None, **words):
        return super().open(*given, headers={**HERE, **(headers or {})}, **words)


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    made = Explorer(store=tmp_path_factory.mktemp("store") / "runs.sqlite", workers=2)
    yield made
    made.close()


@pytest.fixture
def client(explorer):
    return Neighbour(explorer.application, explorer.application.response_class)
