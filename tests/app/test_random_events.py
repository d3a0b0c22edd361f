"""Random events on the page of a server: numbers are those of the shell, and nothing shown belongs to another question."""

import contextlib
import io
import json
import math
import re
from collections import Counter

import pytest
from tests.support.browser import needs_chromium, quiet_page
from tests.support.explorer import until

from onehead import aim
from onehead.app import VIEWS, read_state
from onehead.app.views import (
    checkpoint,
    curve,
    hard_phase,
    head,
    joint,
    scaling,
    several_heads,
    sparse,
    spectrum,
    training_time,
    two_parameter_map,
    weight_decay,
)
from onehead.app.views.base import fill_placeholders
from onehead.cli.main import run
from onehead.sparse import bayes as best_learner

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = needs_chromium

BATCH = 20  # events between two comparisons
SLOWEST = 6  # tokens up to which numbers are waited for
# every control of the page: sliders, typed values, choices, switches, views, presets, undo, themes, play, pins, the guess, tours, the marked line
EVENTS = """async ([seed, count]) => {
  let x = seed;
  const any = (n) => (x = (x * 48271) % 2147483647) % n, $ = (id) => document.getElementById(id), wrong = [];
  const shown = (e) => e && e.offsetParent !== null && !e.disabled;
  const pick = (query) => { const all = [...document.querySelectorAll(query)].filter(shown); return all[any(Math.max(1, all.length))]; };
  const press = (id) => { if (shown($(id))) $(id).click(); };
  const change = (e, value) => { if (!e) return; e.value = value; e.dispatchEvent(new Event("change", { bubbles: true })); };
  const typed = ["0", "-1", "10,000", "0,5", "abc", "0+", "1e9", "3", "", "0.3", "1/d"];
  const events = [
    [45, () => { const s = pick("[data-slide]"); if (!s) return; s.value = any(Number(s.max) + 1); s.dispatchEvent(new Event("input", { bubbles: true })); }],
    [8, () => change(pick("input[type=text][data-knob]"), typed[any(typed.length)])],
    [12, () => { const s = pick("select[data-knob]"); if (s) change(s, s.options[any(s.options.length)].value); }],
    [4, () => { const c = pick("input[type=checkbox][data-knob]"); if (c) c.click(); }],
    [9, () => pick("nav a").click()],
    [4, () => change($("preset"), String(any($("preset").options.length - 1)))],
    [8, () => press(["undo", "redo", "reset"][any(3)])],
    [2, () => press(["theme", "projector"][any(2)])],
    [3, () => press("play")],
    [3, () => press(["pin", "unpin"][any(2)])],
    [2, () => press(["guess", "guess-leave"][any(2)])],
    [4, () => { const t = pick("[data-tour], #tour-next, #tour-back, #tour-leave"); if (t) t.click(); }],
    [2, () => { if (shown($("grip"))) $("grip").dispatchEvent(new KeyboardEvent("keydown", { key: ["ArrowLeft", "ArrowRight"][any(2)], bubbles: true })); }],
    [2, () => { const t = pick("#tokens button"); if (t) t.click(); }],
  ];
  const total = events.reduce((sum, e) => sum + e[0], 0);
  for (let i = 0; i < count; i++) {
    let at = any(total), k = 0;
    while (at >= events[k][0]) at -= events[k++][0];
    events[k][1]();
    await new Promise((done) => setTimeout(done, any(60)));
    const now = onehead.machine(), plays = $("play").getAttribute("aria-pressed") === "true";
    const cells = [...document.querySelectorAll("#numbers td")].map((td) => td.textContent);
    if (!now.numbers && !plays && cells.some((text) => text !== "…")) wrong.push(["numbers of another question", now.key, cells.join()]);
    if (!now.badge && !now.refusal && !now.drafted && !plays && !["…", ""].includes($("badge").firstChild.textContent) && now.status !== "no connection") wrong.push(["badge of another question", now.key]);
    if (now.key !== oneheadKnobs.query().toString()) wrong.push(["key", now.key]);
    if ($("title").textContent !== JSON.parse($("settings").textContent).views[oneheadKnobs.view].title) wrong.push(["title", now.key]);
  }
  return wrong;
}"""
# end what moves or hides the picture
SETTLE = """() => {
  for (const id of ["tour-leave", "guess-leave"]) if (document.getElementById(id).offsetParent) document.getElementById(id).click();
  if (document.getElementById("play").getAttribute("aria-pressed") === "true") document.getElementById("play").click();
}"""
# what a page at rest shows that does not belong to its state
AT_REST = """() => {
  const $ = (id) => document.getElementById(id), K = oneheadKnobs, now = onehead.machine(), wrong = [];
  const visible = document.body.innerText;
  for (const word of ["undefined", "NaN", "null", "[object"]) if (visible.includes(word)) wrong.push([word, visible.match(new RegExp(".*" + word.replace("[", "\\\\[") + ".*"))[0]]);
  const meta = $("picture").layout && $("picture").layout.meta;
  if (now.shown && meta && meta.key !== now.key) wrong.push(["picture", meta.key, now.key]);
  if (location.search.slice(1) !== K.query().toString()) wrong.push(["address", location.search]);
  for (const control of document.querySelectorAll("[data-knob]")) {
    const own = K.values[control.dataset.knob], text = control.type === "checkbox" ? K.text(control.checked) : control.value;
    if (control.offsetParent && text !== K.text(own)) wrong.push(["field", control.dataset.knob, text, K.text(own)]);
  }
  if (now.badge && $("badge").firstChild.textContent === "…") wrong.push(["badge"]);
  if (now.status !== "refused" && !$("picture").getAttribute("aria-label")) wrong.push(["no alternative text"]);
  if (now.shown && now.shown.caption && !$("caption").textContent.includes(now.shown.caption.slice(0, 20)) && !now.sentence) wrong.push(["caption", $("caption").textContent]);
  const drawn = [...document.querySelectorAll("#numbers tr")].map((row) => [row.querySelector("th").firstChild.textContent, row.querySelector("td").textContent]);
  return { wrong: wrong, numbers: drawn, shell: $("shell").textContent, status: now.status, key: now.key };
}"""
MODULES = (
    checkpoint, curve, hard_phase, head, joint, scaling, several_heads, sparse, spectrum, training_time,
    two_parameter_map, weight_decay,
)  # fmt: skip
# commands whose numbers are on the page, and are solved in about a second
COMPARED = re.compile(
    r"onehead (aim (predict|spectrum|thresholds)|aim scaling --samples [\d.e+]+ |sparse (predict|align|capacity|bayes) )"
)


def lines_of_views():
    """Names and attributes of all rows in the tables of the views."""
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, tuple) and value and all(isinstance(row, tuple) and len(row) == 4 for row in value):
                yield from (row for row in value if isinstance(row[2], str))


LINES = tuple(lines_of_views())


def answers_of(shell):
    """Values by key of the documents that the shell commands of a page print."""
    found = {}

    def collect(value):
        if isinstance(value, dict):
            for key, own in value.items():
                if isinstance(own, (dict, list)):
                    collect(own)
                else:
                    found.setdefault(key, []).append(own)
        elif isinstance(value, list):
            for own in value:
                collect(own)

    for command in shell.splitlines():
        if not COMPARED.match(command) or ":" in command or "," in command:
            continue
        with (
            contextlib.redirect_stdout(io.StringIO()) as printed,
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.suppress(SystemExit),
        ):
            run(command.split()[1:])
        if printed.getvalue():
            collect(json.loads(printed.getvalue()))
    return found


def agree(text, value):
    """Whether a number on the page is a value of a document, to the five digits of the page."""
    try:
        shown = float(text.replace("∞", "inf"))
    except ValueError:
        return text == {True: "yes", False: "no", None: "–"}.get(value, str(value))
    wanted = {None: math.nan, "inf": math.inf, "Infinity": math.inf}.get(value, value)
    return isinstance(wanted, (int, float)) and (shown == wanted or abs(shown - wanted) <= 6e-5 * abs(wanted))


def best_possible(state):
    """The error of the best possible learner, from the library; nothing in views where it belongs to another axis."""
    if state.view == "sparse":
        return [best_learner(state.sparse_task, state.protocol.alpha).test_error]
    known = state.view in ("curve", "decay", "map") and state.task.bayes_known
    return [aim.bayes(state.task, state["alpha"]).test_error] if known else []


def compare(page, counts):
    """Compare the numbers on the page with those of its shell commands, and return what differs."""
    found = page.evaluate(AT_REST)
    wrong = [(found["key"], *one) for one in found["wrong"]]
    if found["status"] == "refused" or not found["numbers"]:
        return wrong
    answers = answers_of(found["shell"])
    state, _ = read_state(
        dict(pair.split("=", 1) for pair in page.evaluate("decodeURIComponent(onehead.machine().key)").split("&"))
    )
    keys = {}
    for name, _, key, _ in fill_placeholders(state, *LINES):
        keys.setdefault(name, set()).add(key)
    for name, text in found["numbers"]:
        values = [value for key in keys.get(name, ()) for value in answers.get(key, [])]
        if name == "Best possible":  # a command of its own, which most views do not show
            values = best_possible(state)
        if not values:
            continue
        counts["numbers"] += 1
        if not any(agree(text, value) for value in values):
            wrong.append((found["key"], name, text, values))
    counts["pages"] += 1
    return wrong


def play_events(browser, address, seed, count):
    """Play random events, and compare after every batch; return what was wrong, and how much was compared."""
    wrong, counts = [], Counter()
    with quiet_page(browser, address, viewport={"width": 1280, "height": 860}) as page:
        page.goto(f"{address}/?view=curve")
        until(page, "window.onehead && onehead.drawn > 0")
        for batch in range(count // BATCH):
            wrong += page.evaluate(EVENTS, [seed + 7919 * batch, BATCH])
            page.evaluate(SETTLE)
            if page.evaluate(f"Number(oneheadKnobs.values.tokens) > {SLOWEST}"):
                counts["not waited for"] += 1
                continue
            until(page, "onehead.machine().refusal !== '' || onehead.reported === onehead.asked")
            wrong += compare(page, counts)
    return wrong, counts


def test_random_events_show_nothing_wrong(browser, address):
    wrong, _ = play_events(browser, address, 4471, 60)
    assert wrong == []


@pytest.mark.nightly
def test_two_thousand_random_events_show_nothing_wrong(browser, address):
    wrong, counts = play_events(browser, address, 20261119, 2000)
    assert wrong == []
    assert counts["numbers"] > 200, counts


def test_numbers_of_another_setting_do_not_agree():
    """The comparison sees a wrong last digit, and knows the rows of every view."""
    assert agree("0.13599", 0.135987) and not agree("0.13598", 0.1361)
    assert agree("∞", math.inf) and agree("yes", True) and not agree("no", True)
    state, _ = read_state({})
    names = {name for name, *_ in fill_placeholders(state, *LINES)}
    assert {"Test error", "Rank", "Noise variance", "Capacity, attention", "Rank above the cut"} <= names
    assert set(VIEWS) == {module.VIEW.name for module in MODULES if hasattr(module, "VIEW")}
