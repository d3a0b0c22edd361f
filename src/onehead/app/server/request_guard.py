"""Checks of every request (host, origin, size, fields of a question) and security headers of every answer."""

import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

BODY_LIMIT = 64 * 1024  # bytes of a question from the page
MIN_UPLOAD = 8  # bytes of the header of the smallest checkpoint
UPLOAD_LIMIT = 1024 * 1024 * 1024  # bytes of a checkpoint
MAX_UPLOADS = 2  # at once; each may take a gigabyte of disk
UPLOAD_PATH = "/checkpoint"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
MAX_KEY_LENGTH = 8 * 1024  # characters

# questions of a page, each with its own address and a method of the same name in `onehead.app.server.handlers`
QUESTIONS = ("draw", "report", "picture", "train", "sample")
QUESTION_PATHS = {f"/ask/{name}": name for name in QUESTIONS}
# fields of a question, with type and longest text: its key (the address of the page it is about), the page that asks,
# the command to the training job, and whether it is the first question of the page
QUESTION_FIELDS = {"key": (str, MAX_KEY_LENGTH), "page": (str, 40), "do": (str, 10), "first": (bool, 0)}
Refusal = tuple[str, int]  # sentence, HTTP status


class RequestHead(NamedTuple):
    """The parts of the head of a request that are checked before its body is read."""

    method: str
    path: str
    host: str
    origin: str | None
    site: str | None
    length: int | None
    chunked: bool


def _flask_head(request: Any) -> RequestHead:
    """Return the head of a Flask request."""
    header = request.headers.get
    return RequestHead(
        method=request.method,
        path=request.path,
        host=request.host,
        origin=header("Origin"),
        site=header("Sec-Fetch-Site"),
        length=request.content_length,
        chunked="Transfer-Encoding" in request.headers,
    )


def sentence_body(text: str) -> bytes:
    """Return the JSON body of an answer that consists of one sentence."""
    return json.dumps({"sentence": text}).encode()


def security_headers() -> dict[str, str]:
    """Return the headers of every answer: no content from other hosts, no framing, no guessing of content types.

    Examples
    --------
    >>> "default-src 'none'" in security_headers()["Content-Security-Policy"]
    True
    """
    rules = (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # plotly sets styles
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(rules),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    }


def check_request(request: Any, hosts: tuple[str, ...] | None) -> Refusal | None:
    """Return why a Flask request is refused, or None if it may pass."""
    head = _flask_head(request)
    return check_head(head, hosts) or (
        _check_question(request) if head.method == "POST" and head.path in QUESTION_PATHS else None
    )


def check_head(head: RequestHead, hosts: tuple[str, ...] | None) -> Refusal | None:
    """Return why a request is refused because of its head, before its body is read, or None if it may pass.

    ``hosts`` are the names under which the server may be addressed; a foreign page whose name resolves to this machine
    (DNS rebinding) has another one. None allows any name, for a server that listens on a network.
    """
    if hosts is not None and _hostname(head.host) not in hosts:
        return "This explorer answers only under its own address.", 403
    # browsers name the site that a request comes from: another site may link to the page, but not start work here
    own_site = (head.site or "none") in ("none", "same-origin")
    if head.method not in ("GET", "HEAD", "POST"):
        return "Only GET, HEAD and POST requests are answered.", 405
    if head.method == "POST":
        if (head.origin is not None and _netloc(head.origin) != head.host) or not own_site:
            return "Only the explorer's own page may send questions.", 403
        if head.path not in (*QUESTION_PATHS, UPLOAD_PATH):
            return "Nothing can be posted to this address.", 404
    elif head.path in QUESTION_PATHS:
        return "Questions must be sent with POST.", 405
    elif head.path != "/" and not own_site:
        return "Only the explorer's own page may send questions.", 403
    return _check_length(head)


def _check_length(head: RequestHead) -> Refusal | None:
    """Refuse a body without a declared length, or with one outside the allowed range."""
    upload = head.method == "POST" and head.path == UPLOAD_PATH
    if head.chunked or (head.method == "POST" and head.length is None):
        return "A POST request must have a Content-Length.", 411
    if upload and not MIN_UPLOAD <= (head.length or 0) <= UPLOAD_LIMIT:
        return f"A checkpoint must have between {MIN_UPLOAD} bytes and {UPLOAD_LIMIT // 2**20} MB.", 413
    if not upload and (head.length or 0) > BODY_LIMIT:
        return f"A question may have at most {BODY_LIMIT} bytes (this one has {head.length}).", 413
    return None


def _netloc(origin: str) -> str:
    """Return host and port of an origin; empty if it cannot be parsed."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _hostname(host: str) -> str:
    return host.rsplit(":", 1)[0] if not host.endswith("]") else host


def _check_question(request: Any) -> Refusal | None:
    """Refuse a question that is not JSON of the exact shape that the page itself sends."""
    try:
        body = json.loads(request.get_data(cache=True))
    except (ValueError, RecursionError):
        return "A question must be JSON.", 400
    if not isinstance(body, dict) or not isinstance(body.get("key"), str):
        return "A question must be a JSON object with a key.", 400
    if not set(body) <= set(QUESTION_FIELDS):
        return f"A question may have only the fields {', '.join(QUESTION_FIELDS)}.", 400
    for name, value in body.items():
        kind, max_length = QUESTION_FIELDS[name]
        if not isinstance(value, kind) or (isinstance(value, str) and len(value) > max_length):
            return f"The field {name} of a question has the wrong type or is too long.", 400
    return None
