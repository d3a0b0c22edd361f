"""What stands between the network and the explorer: headers, hosts, sizes, and the shape of every question."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

__all__ = ["BODY_LIMIT", "UPLOAD_LIMIT", "Expected", "expected_callbacks", "guard", "security_headers"]

BODY_LIMIT = 64 * 1024  # bytes of a question from the page
UPLOAD_LIMIT = 1024 * 1024 * 1024  # bytes of a checkpoint
UPDATE = "/_dash-update-component"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")

Expected = dict[str, dict[str, Any]]
Refusal = tuple[str, int]


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


def expected_callbacks(callback_map: dict[str, dict[str, Any]]) -> Expected:
    """For every callback of the page the exact shape of a question: its outputs and its inputs."""
    found = {}
    for output, callback in callback_map.items():
        parts = output.strip(".").split("...") if output.startswith("..") else [output]
        outputs = [dict(zip(("id", "property"), part.rsplit(".", 1), strict=True)) for part in parts]
        inputs = [(item["id"], item["property"]) for item in callback["inputs"]]
        found[output] = {
            "outputs": outputs if len(parts) > 1 or output.startswith("..") else outputs[0],
            "inputs": inputs,
        }
    return found


def guard(request: Any, hosts: tuple[str, ...] | None, expected: Callable[[], Expected]) -> Refusal | None:
    """Refuse a request before anything looks at it; None lets it pass.

    ``hosts`` are the names under which the server may be addressed (a page elsewhere that resolves its own name to this
    machine is none of them); None allows any, where the user asked to listen on a network.
    """
    if hosts is not None and _hostname(request.host) not in hosts:
        return "this explorer answers only under its own address.", 403
    if request.method not in ("GET", "HEAD", "POST"):
        return "only GET and POST are answered.", 405
    if request.method == "POST":
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            return "only the explorer's own page may ask.", 403
        if request.path == "/checkpoint":
            return None
        if request.path != UPDATE:
            return "there is nothing here to post to.", 404
        return _check_question(request, expected())
    if request.path == UPDATE:
        return "questions are posted.", 405
    # browsers say where a question comes from: a page elsewhere must not start work here, a link to this page may
    if request.path != "/" and request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return "only the explorer's own page may ask.", 403
    return None


def _hostname(host: str) -> str:
    return host.rsplit(":", 1)[0] if not host.endswith("]") else host


def _check_question(request: Any, expected: Expected) -> Refusal | None:
    """A question must be JSON of the exact shape that the page itself sends."""
    size = request.content_length
    if size is None:
        return "a question must say how long it is.", 411
    if size > BODY_LIMIT:
        return f"a question must be at most {BODY_LIMIT} bytes; got {size}.", 413
    try:
        body = json.loads(request.get_data(cache=True))
    except (ValueError, RecursionError):
        return "a question must be JSON.", 400
    if not isinstance(body, dict):
        return "a question must be a JSON object.", 400
    output = body.get("output")
    shape = expected.get(output) if isinstance(output, str) else None
    if shape is None or body.get("outputs") != shape["outputs"]:
        return "the page has no such part.", 400
    if not isinstance(body.get("inputs"), list) or body.get("state", []) != []:
        return "a question must have inputs and no state.", 400
    given = [(item.get("id"), item.get("property")) if isinstance(item, dict) else None for item in body["inputs"]]
    if given != shape["inputs"] or not all(isinstance(item.get("value"), dict) for item in body["inputs"]):
        return "the inputs of a question must be those of the page, each an object.", 400
    changed = body.get("changedPropIds", [])
    names = [f"{name}.{what}" for name, what in shape["inputs"]]
    if not isinstance(changed, list) or any(item not in names for item in changed):
        return "a question must name its own inputs.", 400
    if not set(body) <= {"output", "outputs", "inputs", "changedPropIds", "state", "parsedChangedPropsIds"}:
        return "a question has nothing else to say.", 400
    return None
