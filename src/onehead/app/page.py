"""The page around the pictures: tabs, knobs, numbers, buttons. Plain HTML, made once from the table of knobs."""

import json
from html import escape

from onehead import __version__
from onehead.app.knobs import GROUPS, KNOBS, Knob
from onehead.app.presets import PRESETS
from onehead.app.views import VIEWS

__all__ = ["index_page"]


def _knob(knob: Knob) -> str:
    """A label, a control and its help; the sentence of a bad value has its own place."""
    name, title, said = escape(knob.name), escape(knob.said.label), knob.said
    views = " ".join(view.name for view in VIEWS.values() if knob.name in view.knobs)
    symbol = f'<span class="symbol">{escape(knob.symbol)}</span>' if knob.symbol else ""
    own = f'id="knob-{name}" data-knob="{name}" aria-describedby="help-{name} wrong-{name}"'

    def label(before: str = "") -> str:
        return f'<label for="knob-{name}">{before}{title} {symbol}</label>'

    if said.kind == "switch":
        head = label(f'<input type="checkbox" {own}> ')
    elif said.kind == "choice":
        options = "".join(f'<option value="{escape(word)}">{escape(text)}</option>' for word, text in knob.choices)
        head = label() + f"<select {own}>{options}</select>"
    else:
        head = label() + (
            f'<input type="text" inputmode="decimal" autocomplete="off" {own}>'
            f'<input type="range" id="slide-{name}" data-slide="{name}" min="0" max="{_steps(knob)}" step="1" '
            f'aria-label="{title}, slider">'
        )
    return (
        f'<div class="knob {said.kind}" data-views="{views}">{head}'
        f'<p class="help" id="help-{name}">{escape(said.sentence)}</p>'
        f'<p class="wrong" id="wrong-{name}" role="alert" hidden></p></div>'
    )


def _steps(knob: Knob) -> int:
    """Positions of a slider."""
    low, high, step, log = knob.slider
    return 200 if log else max(1, round((high - low) / step))


def _groups() -> str:
    """The knobs, group by group."""
    parts = []
    for group, title in GROUPS.items():
        inside = "".join(_knob(knob) for knob in KNOBS.values() if knob.group == group)
        extra = TRAINING if group == "training" else ""
        parts.append(f'<fieldset data-group="{group}"><legend>{escape(title)}</legend>{inside}{extra}</fieldset>')
    return "".join(parts)


TRAINING = """
<div class="row"><button type="button" id="train">Train it</button>
<button type="button" id="cancel" hidden>Cancel</button></div>
<progress id="trained" max="1" value="0" hidden aria-label="Training progress"></progress>
<p class="help" id="training-says" role="status"></p>
"""

UPLOAD = """
<section id="drop" data-views="checkpoint" hidden>
<label for="file">Drop a safetensors file here, or choose one</label>
<input type="file" id="file" accept=".safetensors">
<progress id="sent" max="1" value="0" hidden aria-label="Upload progress"></progress>
<p class="help" id="file-says" role="status">It is read once, in a temporary folder, and deleted; at most 1 GB.</p>
</section>
"""


def _settings() -> str:
    """What the script of the page has to know, as JSON."""
    knobs = {
        name: {"kind": knob.said.kind, **knob.slider._asdict(), "default": knob.default, "steps": _steps(knob)}
        for name, knob in KNOBS.items()
    }
    told = ("title", "about", "formula", "heads", "knobs", "plays", "trains")
    views = {name: {word: getattr(view, word) for word in told} for name, view in VIEWS.items()}
    presets = [preset._asdict() for preset in PRESETS]
    text = json.dumps({"knobs": knobs, "views": views, "presets": presets})
    return text.replace("<", "\\u003c")  # nothing in it may end the script element


def index_page() -> str:
    """The template that Dash fills with its own scripts; the pictures go where ``app_entry`` stands."""
    presets = "".join(f'<option value="{i}">{escape(preset.name)}</option>' for i, preset in enumerate(PRESETS))
    tabs = "".join(
        f'<a href="?view={name}" data-view="{name}" role="tab">{escape(view.title)}</a>' for name, view in VIEWS.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
{{%metas%}}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>onehead explorer</title>
{{%favicon%}}
{{%css%}}
</head>
<body>
<a class="skip" href="#picture-area">Skip to the picture</a>
<header>
<div class="brand"><strong>onehead</strong> <span>explorer {escape(__version__)}</span></div>
<nav role="tablist" aria-label="Views">{tabs}</nav>
<div class="tools">
<label class="quiet" for="preset">Preset</label>
<select id="preset"><option value="">Presets …</option>{presets}</select>
<button type="button" id="reset" title="All knobs back to their defaults">Reset</button>
<button type="button" id="theme" aria-pressed="false" title="Light or dark">Dark</button>
</div>
</header>
<main>
<section id="picture-area" aria-labelledby="title" tabindex="-1">
<div class="lead"><h1 id="title"></h1><p id="about"></p><div id="formula" role="img" aria-label="formula"></div></div>
{UPLOAD}
<div id="frame">{{%app_entry%}}</div>
<p id="caption" role="status"></p>
<div class="row buttons">
<button type="button" id="play" hidden>▶ Play α</button>
<button type="button" id="png">PNG</button>
<button type="button" id="svg">SVG</button>
<a class="button" id="csv" href="data.csv" download="onehead.csv">CSV</a>
<button type="button" id="link">Copy link</button>
</div>
</section>
<form id="knobs" aria-label="Knobs">{_groups()}</form>
<aside id="panel" aria-label="Numbers">
<div id="badge" class="badge waiting" role="status"><b>…</b><span></span></div>
<ul id="notes"></ul>
<table id="numbers"><caption class="quiet">Numbers at the marked point</caption><tbody></tbody></table>
<details id="code"><summary>As code</summary>
<h2>Python</h2><pre id="python" tabindex="0"></pre>
<h2>Shell</h2><pre id="shell" tabindex="0"></pre>
</details>
</aside>
</main>
<script id="settings" type="application/json">{_settings()}</script>
<footer>{{%config%}}{{%scripts%}}{{%renderer%}}</footer>
</body>
</html>"""
