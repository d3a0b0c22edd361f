// The picture: coloured for the theme, fitted to the screen, with a marked line that can be dragged and curves that can be clicked.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id), LINE_HEIGHT = 15, LETTER_WIDTH = 6.8; // pixels of the heading of a saved picture
  let settings, onMarkedPoint = () => {}, current = null, drawing = null, wanted = null, theme = "light";

  // replace symbolic colours by those of the theme
  function paint(value) {
    if (Array.isArray(value)) return value.some((item) => typeof item === "string" || typeof item === "object") ? value.map(paint) : value;
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, paint(item)]));
    if (typeof value === "string" && value[0] === "@") return settings.colours[theme][value] || value;
    if (typeof value === "string" && value.includes("color:@")) return value.replace(/color:(@\w+)/g, (all, role) => "color:" + settings.colours[theme][role]);
    return value;
  }

  // smaller text on a narrow screen; larger text, lines and markers on a projector
  function fitToScreen(figure) {
    const projected = document.body.classList.contains("projector"), narrow = innerWidth < 760;
    if (!projected && !narrow) return figure;
    const layout = figure.layout, size = narrow ? 11 : 20;
    layout.font.size = size;
    layout.legend = Object.assign({}, layout.legend, { font: { size: size - 1 } });
    (layout.annotations || []).forEach((note) => {
      if (note.xref === "paper") note.font = Object.assign({}, note.font, { size: Math.min(note.font.size + (narrow ? -2 : 5), narrow ? 12 : 24) });
      if (note.xref) return;
      note.yshift *= narrow ? 0.9 : 1.5;
      note.font = Object.assign({}, note.font, { size: narrow ? 10 : 16 });
    });
    if (narrow) return figure;
    layout.margin = Object.assign({}, layout.margin, { l: 84, b: 74, t: 1.5 * layout.margin.t });
    for (const [name, axis] of Object.entries(layout))
      if (/^[xy]axis/.test(name) && axis.tickfont) axis.tickfont = { size: 15 };
    figure.data.forEach((trace) => {
      if (trace.name) trace.name += "\u2003"; // space between two names of a legend
      if (trace.line && trace.line.width) trace.line.width *= 1.8;
      if (trace.marker && trace.marker.size) trace.marker.size *= 1.6;
    });
    return figure;
  }

  // draw an answer; while one is being drawn, only the newest of those that follow is kept
  async function draw(answer) {
    wanted = answer;
    if (drawing || !window.Plotly) return drawing;
    drawing = (async () => {
      while (wanted) {
        const now = wanted, figure = fitToScreen(paint(oneheadGuess.transform(oneheadTokens.withRow(withPins(now.figure)))));
        wanted = null;
        figure.layout.meta = Object.assign({}, figure.layout.meta, { key: now.key, exact: now.exact });
        await Plotly.react($("picture"), figure.data, figure.layout, { displaylogo: false, responsive: true, displayModeBar: false });
        if (!current) listen();
        current = now;
        $("picture").setAttribute("aria-label", oneheadGuess.alt() || now.alt);
        placeGrip();
        showPinButtons();
        document.dispatchEvent(new CustomEvent("onehead-drawn", { detail: now }));
      }
      drawing = null;
    })();
    return drawing;
  }

  // ---- curves that are kept to compare

  const MAX_PINS = 3, PIN_COLOURS = ["@training", "@third", "@grey"];
  let pins = []; // { view, values, traces }

  // the first curve that has a name in the legend; null for maps and sentences
  function mainCurve(figure) {
    return figure.data.find((trace) => trace.type === "scatter" && trace.mode.includes("lines") && trace.showlegend !== false) || null;
  }

  // the knobs in which a kept curve differs from the current one
  function pinName(pin) {
    const now = oneheadKnobs.values, knobs = settings.views[pin.view].knobs.filter((name) => !["alpha", "samples"].includes(name));
    const different = knobs.filter((name) => oneheadKnobs.text(pin.values[name]) !== oneheadKnobs.text(now[name]));
    const shown = different.map((name) => (settings.knobs[name].symbol || settings.knobs[name].label) + " = " + oneheadKnobs.text(pin.values[name]));
    return "pinned" + (shown.length ? ": " + shown.join(", ") : "");
  }

  function withPins(figure) {
    const own = pins.filter((pin) => pin.view === oneheadKnobs.view);
    if (!own.length || !mainCurve(figure)) return figure;
    const kept = own.map((pin, i) => Object.assign({}, pin.trace, {
      name: pinName(pin), line: Object.assign({}, pin.trace.line, { color: PIN_COLOURS[i], dash: "solid", width: 1.6 }),
      hovertemplate: "<b>" + pinName(pin) + "</b><br>%{x:.4g}: %{y:.5g}<extra></extra>",
    }));
    return { data: figure.data.concat(kept), layout: figure.layout };
  }

  function pin() {
    const trace = current && mainCurve(current.figure);
    if (!trace || !current.exact || pins.filter((kept) => kept.view === oneheadKnobs.view).length >= MAX_PINS) return;
    pins.push({ view: oneheadKnobs.view, values: Object.assign({}, oneheadKnobs.values), trace: trace });
    redraw();
  }

  function unpin() {
    pins = pins.filter((kept) => kept.view !== oneheadKnobs.view);
    redraw();
  }

  function showPinButtons() {
    const count = pins.filter((kept) => kept.view === oneheadKnobs.view).length;
    $("pin").hidden = !mainCurve(current.figure);
    $("pin").disabled = count >= MAX_PINS || !current.exact; // a draft has few points
    $("unpin").hidden = count === 0;
  }

  let refused = null;
  // an answer whose figure is a sentence, in place of a picture
  function sentence(key, text) {
    if (refused && refused.key === key && refused.alt === text) return refused;
    const words = text.split(" "), lines = [""];
    for (const word of words) {
      if (lines[lines.length - 1].length + word.length > 60) lines.push("");
      lines[lines.length - 1] += (lines[lines.length - 1] ? " " : "") + word;
    }
    const escaped = lines.join("\n").replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/\n/g, "<br>");
    const layout = {
      xaxis: { visible: false }, yaxis: { visible: false }, font: { size: 15, color: "@ink" }, paper_bgcolor: "@paper", plot_bgcolor: "@paper",
      margin: { l: 10, r: 10, t: 10, b: 10 },
      annotations: [{ xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false, text: escaped, font: { size: 15, color: "@ink" } }],
    };
    refused = { key: key, alt: text, exact: false, figure: { data: [], layout: layout } };
    return refused;
  }

  function redraw() {
    if (current) draw(current);
  }

  // ---- the marked point

  // the knob that the marked line moves (`by`) and its value (`at`)
  function markedPoint() {
    return (current && current.figure.layout.meta) || {};
  }

  function placeGrip() {
    const grip = $("grip"), by = oneheadGuess.active() ? "" : markedPoint().by, full = $("picture")._fullLayout;
    grip.hidden = !by || !full || !full.xaxis || Boolean(settings.recorded && !settings.recorded.solver.includes(oneheadKnobs.view) && !oneheadKnobs.ownStops(by));
    if (grip.hidden) return;
    const axis = full.xaxis, at = axis.d2p(markedPoint().at), area = full._size;
    if (!(at >= -1 && at <= axis._length + 1)) {
      grip.hidden = true;
      return;
    }
    Object.assign(grip.style, { left: axis._offset + at + "px", top: area.t + "px", height: area.h + "px" });
    const knob = settings.knobs[by.split(" ")[0]];
    grip.setAttribute("aria-label", "Marked point on the axis: " + (by.includes(" ") ? "samples" : knob.label));
    grip.setAttribute("aria-valuenow", markedPoint().at);
    grip.setAttribute("aria-valuetext", String(markedPoint().at));
  }

  function moveTo(x) {
    const by = markedPoint().by, whole = settings.knobs[by] && settings.knobs[by].kind === "integer";
    if (isFinite(x) && x > 0) onMarkedPoint(by, whole ? Math.max(1, Math.round(x)) : Number(x.toPrecision(3)));
  }

  function valueAt(clientX) {
    const axis = $("picture")._fullLayout.xaxis, left = $("picture").getBoundingClientRect().left;
    return axis.p2d(Math.min(axis._length, Math.max(0, clientX - left - axis._offset)));
  }

  function listenGrip() {
    const grip = $("grip");
    grip.addEventListener("pointerdown", (e) => {
      e.preventDefault();
      grip.setPointerCapture(e.pointerId);
      grip.classList.add("dragged");
      grip.focus();
    });
    grip.addEventListener("pointermove", (e) => {
      if (!grip.classList.contains("dragged")) return;
      const axis = $("picture")._fullLayout.xaxis, x = valueAt(e.clientX);
      grip.style.left = axis._offset + axis.d2p(x) + "px";
      moveTo(x);
    });
    ["pointerup", "pointercancel"].forEach((name) => grip.addEventListener(name, () => grip.classList.remove("dragged")));
    grip.addEventListener("keydown", (e) => {
      const direction = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[e.key];
      if (!direction) return;
      e.preventDefault();
      const axis = $("picture")._fullLayout.xaxis, at = axis.d2p(markedPoint().at) + (direction * axis._length) / 100;
      moveTo(axis.p2d(Math.min(axis._length, Math.max(0, at))));
    });
  }

  function listen() {
    oneheadTokens.listen($("picture"));
    $("picture").on("plotly_click", (event) => {
      if (markedPoint().by && event.points.length) moveTo(event.points[0].x);
    });
    ["plotly_relayout", "plotly_afterplot"].forEach((name) => $("picture").on(name, () => {
      if (!$("grip").classList.contains("dragged")) placeGrip();
    }));
  }

  // the knobs that differ from their defaults and the marked point, as a line of text
  function parameters() {
    const K = oneheadKnobs, shown = settings.views[K.view].knobs.filter((name) => !name.startsWith("train") && !name.endsWith("_panel") && settings.knobs[name].kind !== "switch"
      && (["alpha", "samples"].includes(name) || K.text(K.values[name]) !== K.text(settings.knobs[name].default)));
    return shown.map((name) => (settings.knobs[name].symbol || settings.knobs[name].label.toLowerCase()) + " = " + K.text(K.values[name])).join(", ");
  }

  // the link to the figure, with the knobs that differ from their defaults; empty where others cannot open the page
  function link() {
    const K = oneheadKnobs, address = settings.base || (settings.recorded && location.protocol.startsWith("http") ? location.href : "");
    const query = K.query();
    for (const [name, value] of [...query]) if (settings.knobs[name] && name !== "alpha" && value === K.text(settings.knobs[name].default)) query.delete(name);
    return address && address.replace(/[?#].*$/, "") + "?" + query;
  }

  // the lines above a saved picture: what it shows, its parameters and the link, broken between two of them where possible
  function heading(width) {
    const line = ".{1," + Math.max(20, Math.floor((width - 20) / LETTER_WIDTH)) + "}";
    const shown = ["onehead", settings.views[oneheadKnobs.view].title.toLowerCase(), parameters()].filter(Boolean).join(" · ");
    return [shown, link()].filter(Boolean).flatMap((text) => text.match(new RegExp(line + "(?:(?<=, |&)|$)|" + line, "gu")));
  }

  function save(format) {
    const gd = $("picture"), box = gd.getBoundingClientRect(), lines = heading(box.width), above = 12 + LINE_HEIGHT * lines.length;
    const text = lines.map((line) => line.replace(/&/g, "&amp;").replace(/</g, "&lt;")).join("<br>");
    const title = { text: text, font: { size: 11 }, x: 0, y: 1, xref: "container", yref: "container", xanchor: "left", yanchor: "top", pad: { l: 8, t: 12 } };
    const margin = Object.assign({}, gd.layout.margin, { t: (gd.layout.margin.t || 0) + above });
    const layout = Object.assign({}, gd.layout, { paper_bgcolor: theme === "dark" ? "#1a1e24" : "#ffffff", margin: margin, title: title });
    Plotly.downloadImage({ data: gd.data, layout: layout }, {
      format: format, filename: "onehead-" + oneheadKnobs.view, width: Math.round(box.width), height: Math.round(box.height + above),
      scale: format === "png" ? 2 : 1,
    });
  }

  // the figure on the screen as CSV, for a page without a server
  function table() {
    const rows = [["curve", "x", "y", "z"]], layout = current.figure.layout, title = (axis) => ((layout[axis] || {}).title || {}).text || axis[0];
    rows[0][1] = title("xaxis");
    rows[0][2] = title("yaxis");
    for (const trace of current.figure.data) {
      if (trace.z) trace.z.forEach((line, i) => line.forEach((z, j) => rows.push([trace.name || "", trace.x ? trace.x[j] : j, trace.y ? trace.y[i] : i, z])));
      else trace.x.forEach((x, i) => rows.push([trace.name || "", x, trace.y[i], ""]));
    }
    const cell = (v) => (v === null || v === undefined ? "" : /[",\n]/.test(v) ? '"' + String(v).replace(/"/g, '""') + '"' : String(v));
    return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
  }

  function begin(pageSettings, markedPointCallback) {
    settings = pageSettings;
    onMarkedPoint = markedPointCallback;
    listenGrip();
    new ResizeObserver(() => current && !drawing && Plotly.Plots.resize($("picture"))).observe($("stage"));
  }

  function setTheme(name) {
    theme = name;
    redraw();
  }

  window.oneheadDrawing = { begin: begin, draw: draw, redraw: redraw, save: save, table: table, setTheme: setTheme, pin: pin, unpin: unpin, sentence: sentence, parameters: parameters, get current() { return current; } };
})();
