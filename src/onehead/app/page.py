"""The HTML of the page: tabs, knobs, table of numbers and buttons, generated from the declarations of the knobs."""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from onehead import __version__
from onehead.app.drawing import THEME_COLOURS
from onehead.app.knobs import GROUPS, KNOBS, RARELY_USED, Knob
from onehead.app.links import reading_list
from onehead.app.presets import PRESETS
from onehead.app.tours import TOURS
from onehead.app.views import VIEWS

ASSETS = Path(__file__).parent / "assets"
STYLES = ("katex/katex.min.css", "explorer.css")
SCRIPTS = (
    "katex/katex.min.js", "machine.js", "solver.js", "drafts.js", "knobs.js", "drawing.js", "network.js", "panel.js", "tour.js",
    "story.js", "tokens.js", "guess.js",
    "explorer.js",
    "plotly/plotly-cartesian.min.js",
)  # fmt: skip
# knobs of a page that is opened without an address; the others follow with "All parameters"
FIRST_KNOBS = ("alpha", "noise", "weight_decay")
# knobs that only some panels of their view use
PANEL_KNOBS = {"descent_step": ("descent",), "ridge_query": ("descent", "protocols")}
# knobs whose symbol has the colour of what they set: the target, the noise of the labels, the threshold of weight decay
SYMBOL_ROLES = {"kappa0": "target", "beta0": "target", "noise": "third", "weight_decay": "second"}
PURPOSE = "One attention head, solved exactly: move a knob and see what it learns."


def _knob(knob: Knob) -> str:
    """Return the HTML of a knob: label, control, help text, and an element for the sentence that refuses its value."""
    name, title, parameter = escape(knob.name), escape(knob.parameter.label), knob.parameter
    views = " ".join(view.name for view in VIEWS.values() if knob.name in view.knobs)
    symbol = (
        f'<span class="symbol {SYMBOL_ROLES.get(knob.name, "")}">{escape(knob.symbol)}</span>' if knob.symbol else ""
    )
    own = f'id="knob-{name}" data-knob="{name}" aria-describedby="help-{name} wrong-{name}"'

    def label(before: str = "") -> str:
        return f'<label for="knob-{name}">{before}{title} {symbol}</label>'

    if parameter.kind == "switch":
        head = label(f'<input type="checkbox" {own}> ')
    elif parameter.kind == "choice":
        options = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in knob.choices)
        head = label() + f"<select {own}>{options}</select>"
    else:
        head = label() + (
            f'<input type="text" inputmode="decimal" autocomplete="off" {own}>'
            f'<input type="range" id="slide-{name}" data-slide="{name}" min="0" max="{_steps(knob)}" step="1" '
            f'aria-label="{title}, slider">'
        )
    return (
        f'<div class="knob {parameter.kind}" data-views="{views}"{_panels(knob)}>{head}'
        f'<p class="help" id="help-{name}">{escape(parameter.sentence)}</p>'
        f'<p class="wrong" id="wrong-{name}" role="alert" hidden></p></div>'
    )


def _panels(knob: Knob) -> str:
    """Return the attribute that names the panels in which a knob is shown; empty for all."""
    panels = " ".join(PANEL_KNOBS.get(knob.name, ()))
    return f' data-panels="{panels}"' if panels else ""


def _steps(knob: Knob) -> int:
    """Return the number of steps of a slider."""
    low, high, step, log = knob.slider
    return 200 if log else max(1, round((high - low) / step))


def _groups() -> str:
    """Return the HTML of all knobs, group by group, with rarely used ones folded away."""
    parts = []
    for group, title in GROUPS.items():
        own = [knob for knob in KNOBS.values() if knob.group == group]
        first = "".join(_knob(knob) for knob in own if knob.name not in RARELY_USED)
        folded = "".join(_knob(knob) for knob in own if knob.name in RARELY_USED)
        more = f'<details class="rare"><summary>More</summary>{folded}</details>' if folded else ""
        parts.append(f'<fieldset data-group="{group}"><legend>{escape(title)}</legend>{first}{more}</fieldset>')
    return "".join(parts)


UPLOAD_FORM = """
<section id="drop" data-views="checkpoint" aria-label="A checkpoint" hidden>
<label for="file">Drop a safetensors file here, or choose one</label>
<input type="file" id="file" accept=".safetensors">
<button type="button" id="sample">Show me a sample</button>
<progress id="sent" max="1" value="0" hidden aria-label="Upload progress"></progress>
<p class="help" id="file-message" role="status">The file (at most 1 GB) is read in a temporary folder and then deleted.</p>
</section>
"""

HEAD_DIAGRAM = """
<svg id="head-drawing" data-views="head" viewBox="0 0 640 118" role="img" aria-labelledby="head-drawing-title">
<title id="head-drawing-title">The head: a sequence of tokens x; the query-key map S compares every token with every other; softmax
turns each row of scores into attention, weights that sum to one.</title>
<g class="tokens"><rect x="10" y="14" width="14" height="72" rx="3"/><rect x="30" y="14" width="14" height="72" rx="3"/>
<rect x="50" y="14" width="14" height="72" rx="3"/><rect x="70" y="14" width="14" height="72" rx="3"/></g>
<text x="47" y="106">tokens x</text><path d="M94 50h34m-7-6 7 6-7 6"/>
<rect class="map" x="140" y="14" width="72" height="72" rx="4"/><text class="big" x="176" y="58">S</text>
<text x="176" y="106">query-key map</text><path d="M222 50h34m-7-6 7 6-7 6"/>
<rect class="box" x="268" y="26" width="112" height="48" rx="6"/><text class="mid" x="324" y="55">xᵀ S x</text>
<text x="324" y="106">scores</text><path d="M390 50h34m-7-6 7 6-7 6"/>
<rect class="box" x="436" y="26" width="84" height="48" rx="6"/><text class="mid" x="478" y="55">softmax</text>
<text x="478" y="106">rows sum to 1</text><path d="M530 50h24m-7-6 7 6-7 6"/>
<g class="cells"><rect x="564" y="14" width="18" height="18" opacity=".95"/><rect x="582" y="14" width="18" height="18" opacity=".2"/>
<rect x="600" y="14" width="18" height="18" opacity=".1"/><rect x="618" y="14" width="18" height="18" opacity=".15"/>
<rect x="564" y="32" width="18" height="18" opacity=".1"/><rect x="582" y="32" width="18" height="18" opacity=".8"/>
<rect x="600" y="32" width="18" height="18" opacity=".35"/><rect x="618" y="32" width="18" height="18" opacity=".1"/>
<rect x="564" y="50" width="18" height="18" opacity=".3"/><rect x="582" y="50" width="18" height="18" opacity=".15"/>
<rect x="600" y="50" width="18" height="18" opacity=".7"/><rect x="618" y="50" width="18" height="18" opacity=".2"/>
<rect x="564" y="68" width="18" height="18" opacity=".15"/><rect x="582" y="68" width="18" height="18" opacity=".1"/>
<rect x="600" y="68" width="18" height="18" opacity=".3"/><rect x="618" y="68" width="18" height="18" opacity=".85"/></g>
<text x="600" y="106">attention</text></svg>
"""


TOUR = """
<section id="tour" role="dialog" aria-modal="false" aria-labelledby="tour-title" hidden>
<div class="words"><p class="count" id="tour-count"></p><h2 id="tour-title" tabindex="-1"></h2>
<p id="tour-text" aria-live="polite"></p></div>
<div class="row"><button type="button" id="tour-back" title="Page up">Back</button>
<button type="button" id="tour-next" class="main" title="Page down">Next</button>
<button type="button" id="tour-leave" title="Escape">Leave</button></div></section>
"""


def _settings(base: str, recorded: Mapping[str, Any] | None) -> str:
    """Return the settings that the scripts of the page read, as JSON."""
    knobs = {
        name: {
            "kind": knob.parameter.kind,
            **knob.slider._asdict(),
            "default": knob.default,
            "steps": _steps(knob),
            "label": knob.parameter.label,
            "symbol": knob.symbol,
            "rare": name in RARELY_USED,
            "first": name in FIRST_KNOBS,
            "panels": PANEL_KNOBS.get(name, ()),
        }
        for name, knob in KNOBS.items()
    }
    fields = ("title", "about", "formula", "heads", "knobs", "panel", "plays", "trains", "untied")
    views = {name: {field: getattr(view, field) for field in fields} for name, view in VIEWS.items()}
    settings = {
        "knobs": knobs,
        "views": views,
        "presets": [preset._asdict() for preset in PRESETS],
        "tours": [tour.to_dict() for tour in TOURS],
        "colours": THEME_COLOURS,
        "base": base,
        "recorded": recorded,
    }
    return json.dumps(settings).replace("<", "\\u003c")  # no text may end the script element


def _asset_tags(tags: Mapping[str, str]) -> str:
    """Return the elements that load styles and scripts; the tag in an address changes with the content of the file."""
    styles = (f'<link rel="stylesheet" href="assets/{name}?v={tags.get(name, "0")}">' for name in STYLES)
    scripts = (f'<script defer src="assets/{name}?v={tags.get(name, "0")}"></script>' for name in SCRIPTS)
    return "\n".join((*styles, *scripts))


def index_page(*, base: str = "", tags: Mapping[str, str] | None = None) -> str:
    """Return the page that the server sends; "Copy link" uses the address ``base``, ``tags`` are versions of assets."""
    return render_page(_asset_tags(tags or {}), base=base)


def render_page(
    files: str, *, base: str = "", documentation: str = "", recorded: Mapping[str, Any] | None = None
) -> str:
    """Return the page with the given elements for styles and scripts.

    ``recorded`` lists the recorded answers of a page without a server.
    """
    presets = "".join(f'<option value="{i}">{escape(preset.name)}</option>' for i, preset in enumerate(PRESETS))
    shown = [view for view in VIEWS.values() if recorded is None or view.name in recorded["views"]]
    tabs = "".join(
        f'<a href="?view={view.name}" id="tab-{view.name}" data-view="{view.name}" role="tab" '
        f'aria-controls="picture-area">'
        f"{escape(view.title)}</a>"
        for view in shown
    )
    tours = "".join(
        f'<button type="button" data-tour="{i}">{escape(tour.name)}</button>' for i, tour in enumerate(TOURS)
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="{escape(PURPOSE)}">
<title>onehead explorer</title>
<link rel="icon" href="data:,">
{files}
</head>
<body>
<a class="skip" href="#picture-area">Skip to the picture</a>
<header>
<div class="brand"><strong>onehead</strong> <span>explorer {escape(__version__)}</span></div>
<p class="purpose">{escape(PURPOSE)}</p>
<div class="tools">
<button type="button" id="undo" title="Undo (Ctrl+Z)" aria-label="Undo" disabled>↶</button>
<button type="button" id="redo" title="Redo (Ctrl+Shift+Z)" aria-label="Redo" disabled>↷</button>
<label class="quiet" for="preset">Preset</label>
<select id="preset"><option value="">Presets …</option>{presets}</select>
<button type="button" id="reset" title="All knobs back to their defaults; Undo brings them back">Reset</button>
<button type="button" id="projector" aria-pressed="false" title="Large letters and lines, for a projector">Projector</button>
<button type="button" id="theme" aria-pressed="false" title="Light or dark">Dark</button>
</div>
<nav role="tablist" aria-label="Views">{tabs}</nav>
<div class="row tours" role="group" aria-label="Guided tours">{tours}</div>
</header>
<div id="job" role="status" hidden><span id="job-message"></span>
<progress id="trained" max="1" value="0" aria-label="Training progress"></progress>
<button type="button" id="cancel">Cancel</button></div>
{TOUR}
<main>
<section id="picture-area" role="tabpanel" aria-labelledby="title" tabindex="-1">
<div class="lead"><h1 id="title"></h1><p id="about"></p>{HEAD_DIAGRAM}<div id="formula" role="img" aria-label="formula"></div>
<div id="symbols" class="row" role="group" aria-label="Symbols of the formula: go to the knob"></div></div>
{UPLOAD_FORM}
<div class="row" id="play-row"><button type="button" id="play" class="main" hidden>▶ Play α</button><p id="story" hidden><span id="story-text" role="status"></span> <span id="story-share"></span></p></div>
<div id="frame"><div id="state" class="drawing" role="status">drawing</div>
<div id="stage"><div id="picture" role="img" aria-label="The picture is being drawn."></div>
<div id="grip" role="slider" tabindex="0" aria-label="Marked point" aria-valuenow="0" hidden></div>
<div id="guess-pad" role="slider" tabindex="0" aria-label="Your guess: left and right choose a sample ratio, up and down set the error"
aria-valuemin="0" aria-valuemax="1" aria-valuenow="0" hidden></div></div></div>
<div class="row" id="guess-row" role="group" aria-label="Guess, then see" hidden><p id="guess-text" role="status"></p>
<button type="button" id="guess-see" class="main" disabled>See</button><button type="button" id="guess-leave">Leave</button></div>
<div class="row" id="tokens" data-views="head" role="group" aria-label="Tokens: point at one for its row of attention" hidden></div>
<p id="caption"></p>
<div class="row buttons">
<button type="button" id="train" class="main" hidden>Train it</button>
<button type="button" id="guess" aria-pressed="false" title="Draw how the error goes on, then see the curve and trained heads" hidden>Guess</button>
<button type="button" id="pin" title="Keep this curve to compare it with others; at most three" hidden>Pin</button>
<button type="button" id="unpin" hidden>Remove pins</button>
<button type="button" id="png">PNG</button>
<button type="button" id="svg">SVG</button>
<a class="button" id="csv" href="data.csv" download="onehead.csv">CSV</a>
<button type="button" id="link">Copy link</button>
<button type="button" id="embed" title="Copy the HTML that shows this picture in another page">Copy embed code</button>
<p class="help" id="training-message" role="status"></p>
</div>
</section>
<form id="knobs" aria-label="Knobs"><button type="button" id="all-knobs" aria-expanded="false">All parameters</button>{_groups()}</form>
<aside id="panel" aria-label="Numbers">
<div id="badge" class="badge waiting" role="status"><b>…</b><span></span></div>
<ul id="notes"></ul>
<table id="numbers"><caption id="numbers-title">Numbers at the marked point</caption><tbody></tbody></table>
<details id="code"><summary>As code</summary>
<h2>Python</h2><pre id="python" tabindex="0"></pre>
<h2>Shell</h2><pre id="shell" tabindex="0"></pre>
</details>
<details id="papers"><summary>Papers, pages, code</summary><ul>{reading_list(documentation)}</ul></details>
</aside>
</main>
<script id="settings" type="application/json">{_settings(base, recorded)}</script>
</body>
</html>"""
