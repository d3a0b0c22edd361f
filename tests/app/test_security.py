"""The explorer answers nobody else, limits what it reads, and shows text as text."""

import json
import re
import socket
import threading
import time
from pathlib import Path

import pytest
from tests.support.explorer import question
from tests.support.hostile import checkpoint

import onehead
from onehead.errors import InvalidArgument, OneheadError
from onehead.weights import open_checkpoint

SOURCE = Path(onehead.__file__).parent
UPDATE, QUESTION = "/_dash-update-component", question("draw", {"view": "sparse", "sparse_panel": "alignment"})


@pytest.fixture(scope="module")
def port(explorer):
    """The explorer behind a real socket; its port."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_, **__):
            pass

    server = make_server("127.0.0.1", 0, explorer.dash.server, threaded=True, request_handler=Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def raw(port, data, seconds=10.0):
    """Send bytes, return everything that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as wire:
        wire.sendall(data)
        parts = []
        while part := wire.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:1", "evil.example:127.0.0.1", "127.0.0.1@evil.example",
        "[::1].evil.example", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1", "2130706433", "LOCALHOST.", "localhost,evil.example",
    ],
)  # fmt: skip
def test_only_its_own_names_are_answered(client, host):
    # a page whose name was made to lead here (DNS rebinding) sends its own name
    for path in ("/", "/data.csv", "/assets/explorer.js", "/_dash-layout"):
        assert client.get(path, headers={"Host": host}).status_code in (400, 403)
    assert client.post(UPDATE, json=QUESTION, headers={"Host": host}).status_code in (400, 403)


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "http://127.0.0.1:2", "http://127.0.0.1", "http://127.0.0.1:1.evil.example",
     "http://127.0.0.1:1@evil.example", "file://", "http://localhost:1"],
)  # fmt: skip
def test_pages_of_other_origins_may_not_post(client, origin):
    for path in ("/_dash-update-component", "/checkpoint", "/"):
        answer = client.post(path, data=b"{}", headers={"Host": "127.0.0.1:1", "Origin": origin})
        assert answer.status_code == 403
    assert client.post(UPDATE, json=QUESTION, headers={"Origin": origin}).status_code == 403
    own = {"Host": "localhost:1", "Origin": "http://localhost:1"}
    assert client.post(UPDATE, json=QUESTION, headers=own).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_origins_may_not_make_it_work(client, site):
    here = {"Host": "127.0.0.1:1", "Sec-Fetch-Site": site}
    assert client.get("/data.csv?view=sparse&sparse_panel=alignment", headers=here).status_code == 403
    assert client.get("/", headers=here).status_code == 200  # a link to the page itself is welcome
    assert client.get("/_dash-layout", headers=here | {"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_the_body_of_a_refused_request_is_never_a_request(port):
    # a page elsewhere can choose the body of its request; were it read as the next one, it would choose its headers too
    inner = b"GET /_dash-layout HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for start in (b"POST /checkpoint", b"POST /nowhere", b"GET /", b"DELETE /", b"POST /_dash-update-component"):
        length = str(len(inner)).encode()
        head = start + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\nContent-Length: " + length
        answer = raw(port, head + b"\r\n\r\n" + inner)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"ask-draw" not in answer


@pytest.mark.parametrize(
    ("request_", "codes"),
    [
        (
            b"POST /checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            (413,),
        ),
        (b"POST /checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n", (413,)),
        (b"POST /checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n", (400, 413)),
        (b"POST /_dash-update-component HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 70000\r\n\r\n", (413,)),
        (
            b"POST /_dash-update-component HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            (411,),
        ),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (414,)),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", (431,)),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", (431,)),
        (b"TRACE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (405, 501)),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (200, 400, 403)),
        (b"GET /assets/../server.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (404,)),
        (b"GET /assets/%2e%2e/server.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (404,)),
        (b"GET /assets/..%2fserver.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (404,)),
        (b"GET /assets//etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (200, 404)),  # the page itself
        (b"GET /_dash-component-suites/os/os.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (404,)),
    ],
    ids=lambda value: re.sub(rb"\W+", b"-", value[:45]).decode() if isinstance(value, bytes) else "",
)
def test_requests_are_limited_before_they_are_read(port, request_, codes):
    answer = raw(port, request_)
    assert int(answer.split(b" ", 2)[1]) in codes
    assert b"Traceback" not in answer and b"def " not in answer and b"root:" not in answer


def test_many_questions_at_once_wait_and_leave_no_process_behind(explorer):
    # 24 people ask for long work at once: each gets an answer or a sentence in time, and no more than two processes work
    from onehead.app.state import read_state

    slow, _ = read_state({"view": "curve", "best": "1", "tokens": "8"})
    ended = []

    def one(i):
        start = time.monotonic()
        try:
            explorer.workers.ask("report", ("curve", slow.values, {}), page=f"p{i}", limit=3.0)
            ended.append(("answer", time.monotonic() - start))
        except OneheadError as refusal:
            ended.append((str(refusal), time.monotonic() - start))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(ended) == 24
    # 3 s, and up to 10 s more for ending and replacing the workers that took longer
    assert max(seconds for _, seconds in ended) < 15.0
    assert all(told == "answer" or "busy" in told or "within" in told for told, _ in ended)
    assert len(explorer.workers._idle) == 2 and explorer.workers._busy == []
    assert explorer.workers._newest == {}


def test_files_are_taken_two_at_a_time(client, tmp_path):
    from onehead.app import server

    checkpoint(tmp_path / "model.safetensors", size=16)
    data = (tmp_path / "model.safetensors").read_bytes()
    with server.UPLOADS, server.UPLOADS:
        refused = client.post("/checkpoint?heads=1", data=data)
    assert refused.status_code == 503
    taken = client.post("/checkpoint?heads=1", data=data)
    assert taken.status_code == 200
    assert json.loads(taken.get_data())["heads"] == 1


def test_text_of_a_file_is_text_on_the_page(client, tmp_path):
    checkpoint(tmp_path / "model.safetensors", "evil_name.", size=16)
    name = "<img src=x onerror=alert(1)><b>&{}$"
    answer = client.post(
        "/checkpoint", query_string={"heads": "1", "name": name}, data=(tmp_path / "model.safetensors").read_bytes(),
    )  # fmt: skip
    body = question("draw", {"view": "checkpoint"})
    body["inputs"][0]["value"]["file"] = json.loads(answer.get_data())["file"]
    shown = client.post("/_dash-update-component", json=body)
    assert shown.mimetype == "application/json"
    response = json.loads(shown.get_data())["response"]
    # plotly understands some markup, so nothing of a file may reach a figure; the caption is set as text, see below
    assert "onerror" not in json.dumps(response["picture"]["figure"])
    assert "evil_name" not in json.dumps(response["picture"]["figure"])
    assert name in response["told-draw"]["data"]["caption"]


def test_the_page_makes_no_markup_from_text():
    script = (SOURCE / "app" / "assets" / "explorer.js").read_text()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "srcdoc",
        "javascript:",
    ):
        assert word not in script, word
    katex = [line for line in script.splitlines() if "katex.render" in line]
    assert all("own.formula" in line for line in katex)  # formulas are the views' own
    assert "trust" not in "".join(katex)


def test_addresses_are_data(client):
    for value in (
        "<script>alert(1)</script>",
        '"><svg onload=alert(1)>',
        "{{7*7}}",
        "${7*7}",
        "../../etc/passwd",
        "\x00",
        "'--",
    ):
        for path in ("/", "/data.csv"):
            answer = client.get(path, query_string={"view": value, "noise": value, value[:20]: "1"})
            assert answer.status_code in (200, 400)
            text = answer.get_data(as_text=True)
            if answer.mimetype == "text/html":
                assert value not in text or value in ("\x00", "'--")
            else:
                assert answer.mimetype in ("application/json", "text/csv")


def test_open_checkpoint_names_no_other_file(tmp_path):
    # what a sentence says of a file is its name, so that a page or a log does not learn the folders of this machine
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(InvalidArgument) as failure:
        open_checkpoint(tmp_path / "bad.safetensors")
    assert str(tmp_path) not in str(failure.value)
