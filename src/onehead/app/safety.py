"""What stands between the network and the explorer: headers, hosts, sizes, and the shape of every question."""

import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

__all__ = [
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
UPDATE = "/_dash-update-component"
UPLOAD = "/checkpoint"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")

# what a page may ask, and the parts of it that the answer fills; each question is the data of a store of its own
QUESTIONS = {
    "draw": ("picture.figure", "told-draw.data"),
    "report": ("told-report.data",),
    "picture": ("told-picture.data",),
    "train": ("told-train.data",),
}
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


def security_headers(script_hashes: list[str]) -> dict[str, str]:
    """Headers of every answer: nothing from elsewhere, nothing framed, nothing guessed.

    Examples
    --------
    >>> "default-src 'none'" in security_headers([])["Content-Security-Policy"]
    True
    """
    rules = (
        "default-src 'none'",
        " ".join(["script-src 'self'", *script_hashes]),
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


def _shapes() -> dict[str, tuple[Any, str]]:
    """For every question as Dash names it the exact outputs and the one input."""
    found: dict[str, tuple[Any, str]] = {}
    for name, parts in QUESTIONS.items():
        outputs = [dict(zip(("id", "property"), part.split("."), strict=True)) for part in parts]
        several = len(parts) > 1
        found[f"..{'...'.join(parts)}.." if several else parts[0]] = outputs if several else outputs[0], f"ask-{name}"
    return found


SHAPES = _shapes()


def guard(request: Any, hosts: tuple[str, ...] | None) -> Refusal | None:
    """Refuse a request before anything looks at it; None lets it pass."""
    head = head_of(request)
    return strange(head, hosts) or (_check_question(request) if head.method == "POST" and head.path == UPDATE else None)


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
        if head.path not in (UPDATE, UPLOAD):
            return "there is nothing here to post to.", 404
    elif head.path == UPDATE:
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
    if not isinstance(body, dict):
        return "a question must be a JSON object.", 400
    output = body.get("output")
    outputs, asks = SHAPES.get(output, (None, "")) if isinstance(output, str) else (None, "")
    if outputs is None or body.get("outputs") != outputs:
        return "the page has no such part.", 400
    if not isinstance(body.get("inputs"), list) or body.get("state", []) != []:
        return "a question must have inputs and no state.", 400
    given = [(item.get("id"), item.get("property")) if isinstance(item, dict) else None for item in body["inputs"]]
    if given != [(asks, "data")] or not all(isinstance(item.get("value"), dict) for item in body["inputs"]):
        return "the inputs of a question must be those of the page, each an object.", 400
    changed = body.get("changedPropIds", [])
    if not isinstance(changed, list) or any(item != f"{asks}.data" for item in changed):
        return "a question must name its own inputs.", 400
    if not set(body) <= {"output", "outputs", "inputs", "changedPropIds", "state", "parsedChangedPropsIds"}:
        return "a question has nothing else to say.", 400
    return None
