"""The explorer three ways: in this process with a client, as a program with an address, and on a page of a browser."""

import pytest
from flask.testing import FlaskClient
from tests.support.browser import quiet_page
from tests.support.explorer import running_server

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


@pytest.fixture(scope="session")
def address():
    """One program for all tests of a worker; what a test leaves in its memory must not matter to the next."""
    with running_server() as found:
        yield found


@pytest.fixture
def page(browser, address):
    with quiet_page(browser, address, viewport={"width": 1280, "height": 860}, accept_downloads=True) as made:
        yield made
