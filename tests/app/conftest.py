"""Fixtures of the explorer: a Flask client in this process, a server with an address, and a page of a browser."""

import pytest
from flask.testing import FlaskClient
from tests.support.browser import quiet_page
from tests.support.explorer import running_server

from onehead.app.server.application import Explorer

LOCAL_HOST = {"Host": "127.0.0.1:1"}


class LocalClient(FlaskClient):
    """A client that names the server's own host in every request, as the page does, unless ``headers`` has another."""

    def open(self, *args, headers=None, **options):
        return super().open(*args, headers={**LOCAL_HOST, **(headers or {})}, **options)


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    made = Explorer(store=tmp_path_factory.mktemp("store") / "runs.sqlite", workers=2)
    yield made
    made.close()


@pytest.fixture
def client(explorer):
    return LocalClient(explorer.application, explorer.application.response_class)


@pytest.fixture(scope="session")
def address():
    """One server for all tests of a pytest worker; tests must not depend on what earlier ones left in its caches."""
    with running_server() as found:
        yield found


@pytest.fixture
def page(browser, address):
    with quiet_page(browser, address, viewport={"width": 1280, "height": 860}, accept_downloads=True) as made:
        yield made
