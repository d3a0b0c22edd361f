"""What stands between the network and the explorer: headers, hosts, sizes, and the shape of every question."""

import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

__all__ = [
    "ASKED",
    "BODY_LIMIT",
    "LOOPBACK",
    "QUESTIONS",
    "UPLOAD",
    "UPLOADS_AT_ONCE",
    "UPLOAD_LIMIT",
    "Head",
    "Refusal",
    "guard",
    "head_of",
    "security_headers",
    "sentence",
    "strange",
]

BODY_LIMIT = 64 * 1024  # bytes of a question from the page
SMALLEST = 8
UPLOAD_LIMIT = 1024 * 1024 * 1024  # bytes of a checkpoint
UPLOADS_AT_ONCE = 2  # each may take a gigabyte of disk
UPLOAD = "/checkpoint"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
LONGEST_KEY = 8 * 1024

# what a page may ask, each under an address of its own; `onehead.app.answers` has a function of the same name
QUESTIONS = ("draw", "report", "picture", "train", "sample")
ASKED = {f"/ask/{name}": name for name in QUESTIONS}
# what a question says: its key, which is the address of the page it is about; the page that asks; what training should do
WORDS = {"key": (str, LONGEST_KEY), "page": (str, 40), "do": (str, 10), "first": (bool, 0)}
Refusal = tuple[str, int]


class Head(NamedTuple):
    """What a request says before its body."""

    method: str
    path: str
    host: str
    origin: str | None
    site: str | None
    length: int | None
    chunked: bool


def head_of(request: Any) -> Head:
    """The head of a request as Flask gives it."""
    said = request.headers.get
    return Head(
        method=request.method,
        path=request.path,
        host=request.host,
        origin=said("Origin"),
        site=said("Sec-Fetch-Site"),
        length=request.content_length,
        chunked="Transfer-Encoding" in request.headers,
    )


def sentence(text: str) -> bytes:
    """The body of an answer that is one sentence."""
    return json.dumps({"sentence": text}).encode()


def security_headers() -> dict[str, str]:
    """Headers of every answer: nothing from elsewhere, nothing framed, nothing guessed.

    Examples
    --------
    >>> "default-src 'none'" in security_headers()["Content-Security-Policy"]
    True
    """
    rules = (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # plotly writes styles
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


def guard(request: Any, hosts: tuple[str, ...] | None) -> Refusal | None:
    """Refuse a request before anything looks at it; None lets it pass."""
    head = head_of(request)
    return strange(head, hosts) or (_check_question(request) if head.method == "POST" and head.path in ASKED else None)


def strange(head: Head, hosts: tuple[str, ...] | None) -> Refusal | None:
    """Refuse a request for what its head says, before its body is read; None lets it pass.

    ``hosts`` are the names under which the server may be addressed (a page elsewhere that resolves its own name to this
    machine is none of them); None allows any, where the user asked to listen on a network.
    """
    if hosts is not None and _hostname(head.host) not in hosts:
        return "this explorer answers only under its own address.", 403
    if head.method not in ("GET", "HEAD", "POST"):
        return "only GET and POST are answered.", 405
    if head.method == "POST":
        if head.origin is not None and _netloc(head.origin) != head.host:
            return "only the explorer's own page may ask.", 403
        if head.path not in (*ASKED, UPLOAD):
            return "there is nothing here to post to.", 404
    elif head.path in ASKED:
        return "questions are posted.", 405
    # browsers say where a question comes from: a page elsewhere must not start work here, a link to this page may
    elif head.path != "/" and (head.site or "none") not in ("none", "same-origin"):
        return "only the explorer's own page may ask.", 403
    return _too_long(head)


def _too_long(head: Head) -> Refusal | None:
    """Refuse a body that is larger than any good one, or does not say how large it is."""
    upload = head.method == "POST" and head.path == UPLOAD
    if head.chunked or (head.method == "POST" and head.length is None):
        return "a question must say how long it is.", 411
    if upload and not SMALLEST <= (head.length or 0) <= UPLOAD_LIMIT:
        return f"a checkpoint must have between {SMALLEST} bytes and {UPLOAD_LIMIT // 2**20} MB.", 413
    if not upload and (head.length or 0) > BODY_LIMIT:
        return f"a question must be at most {BODY_LIMIT} bytes; got {head.length}.", 413
    return None


def _netloc(origin: str) -> str:
    """The host of an origin; one that cannot be read has none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _hostname(host: str) -> str:
    return host.rsplit(":", 1)[0] if not host.endswith("]") else host


def _check_question(request: Any) -> Refusal | None:
    """A question must be JSON of the exact shape that the page itself sends."""
    try:
        body = json.loads(request.get_data(cache=True))
    except (ValueError, RecursionError):
        return "a question must be JSON.", 400
    if not isinstance(body, dict) or not isinstance(body.get("key"), str):
        return "a question must be a JSON object with a key.", 400
    if not set(body) <= set(WORDS):
        return "a question has nothing else to say.", 400
    for name, value in body.items():
        kind, longest = WORDS[name]
        if not isinstance(value, kind) or (isinstance(value, str) and len(value) > longest):
            return f"the {name} of a question must be as the page sends it.", 400
    return None
