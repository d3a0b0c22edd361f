// Guess, then see: the reader draws how the test error goes on with the number of samples; then the curve is shown, then trained
// heads land on it one by one, and a sentence says how far the guess was.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const SHOWN = 0.25; // share of the axis on which the curve is shown before the guess
  const COUNT = 17, REVEAL = 1600, LANDING = 350; // points of a guess; milliseconds of the curve, and between two trained points
  const PEAK = 1.03; // a rise by this factor, followed by a fall, counts as a peak
  let settings, phase = "", guess = null, at = 1, share = 0, landed = 0, timer = null, asked = "", far = 0, top = 1;

  const active = () => phase !== "";
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const isTrained = (trace) => (trace.name || "").startsWith("trained");
  const digits = (v) => Number(v.toPrecision(2)).toString();

  // value of a curve at x, linear in log x between its points
  function valueAt(xs, ys, x) {
    const i = Math.min(xs.length - 1, Math.max(1, xs.findIndex((v) => v >= x) < 0 ? xs.length - 1 : xs.findIndex((v) => v >= x)));
    const part = Math.log(x / xs[i - 1]) / Math.log(xs[i] / xs[i - 1]);
    return ys[i - 1] + Math.min(1, Math.max(0, part)) * (ys[i] - ys[i - 1]);
  }

  // the points of a curve that are numbers
  function points(trace) {
    const pairs = trace.x.map((x, i) => [x, trace.y[i]]).filter(([x, y]) => x !== null && y !== null);
    return [pairs.map((pair) => pair[0]), pairs.map((pair) => pair[1])];
  }

  function cut(xs) {
    return xs[0] * Math.pow(xs[xs.length - 1] / xs[0], SHOWN);
  }

  // the guess before the reader draws: the last value shown goes on
  function begin(figure) {
    const [xs, ys] = points(figure.data[0]), from = cut(xs), end = xs[xs.length - 1], start = valueAt(xs, ys, from);
    const x = Array.from({ length: COUNT }, (_, i) => from * Math.pow(end / from, i / (COUNT - 1)));
    guess = { x: x, y: x.map(() => start), truth: x.map((v) => valueAt(xs, ys, v)) };
    top = 1.25 * Math.max(start, ...ys); // the same height before and after, so that the guess stays where it was drawn
    at = 1;
    far = 0;
  }

  // ---- the figure of each phase

  function upTo(trace, x) {
    const [xs, ys] = points(trace), inside = xs.filter((v) => v < x);
    return Object.assign({}, trace, { x: inside.concat(x), y: ys.slice(0, inside.length).concat(valueAt(xs, ys, x)) });
  }

  function transform(figure) {
    if (!active() || !guess) return figure;
    const own = {
      type: "scatter", mode: "lines+markers", name: "your guess", x: guess.x, y: guess.y, line: { color: "@third", dash: "dash", width: 2.2 },
      marker: { color: "@third", size: guess.x.map((_, i) => (phase === "draw" && i === at ? 12 : 5)) }, hovertemplate: "your guess<br>%{x:.3g}: %{y:.3g}<extra></extra>",
    };
    const layout = Object.assign({}, figure.layout, { yaxis: Object.assign({}, figure.layout.yaxis, { range: [0, top], autorange: false }), uirevision: "guess" });
    if (phase === "draw" || phase === "reveal") {
      // thresholds and other lines would give the answer away
      const from = guess.x[0] * Math.pow(guess.x[COUNT - 1] / guess.x[0], phase === "draw" ? 0 : share);
      return { data: [upTo(figure.data[0], from), own], layout: Object.assign(layout, { shapes: [], annotations: [], meta: {} }) };
    }
    let left = landed;
    const first = (values, keep) => (values ? values.filter((_, i) => keep[i]) : values);
    const data = figure.data.map((trace) => {
      if (!isTrained(trace)) return trace;
      const keep = trace.x.map((_, i) => i < left), error = trace.error_y;
      return Object.assign({}, trace, { x: first(trace.x, keep), y: first(trace.y, keep), error_y: error ? Object.assign({}, error, { array: first(error.array, keep) }) : error });
    });
    return { data: data.concat(own), layout: layout };
  }

  const alt = () => (phase === "draw" ? "The curve of the test error, hidden beyond a sample ratio of " + digits(guess.x[0]) + ": draw how it goes on." : "");

  // ---- the sentence

  // where a curve is highest above the lowest point before it, if it falls again; -1 without such a rise
  function peakOf(ys) {
    const rise = ys.map((y, i) => y / Math.min(...ys.slice(0, i + 1))), i = rise.indexOf(Math.max(...rise));
    return rise[i] > PEAK && ys[i] > PEAK * ys[ys.length - 1] ? i : -1;
  }

  // how far a guess (x, y) is from the true values; `threshold` is the sample ratio up to which every label can be fitted, or null
  function verdict(found, threshold) {
    const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length, off = mean(found.y.map((v, i) => Math.abs(v - found.truth[i]))) / mean(found.truth);
    const peak = peakOf(found.truth), own = peakOf(found.y), where = (i) => "α = " + digits(found.x[i]);
    const first = "On average your guess is off by " + Math.round(100 * off) + " % of the error. ";
    if (peak < 0) return first + "The error goes from " + digits(found.truth[0]) + " to " + digits(found.truth[COUNT - 1]) + (own < 0 ? ", without a peak." : ", without the peak that you drew.");
    const beyond = threshold && threshold < found.x[peak] ? ", beyond the sample ratio up to which the head fits every label," : "";
    const height = "it rises to " + digits(found.truth[peak]) + " at " + where(peak) + beyond + " before it falls.";
    return first + (own < 0 ? "You drew no peak: " + height : "You drew a peak at " + where(own) + "; " + height);
  }

  function threshold() {
    const mark = (oneheadDrawing.current.figure.layout.annotations || []).find((note) => note.text === "interpolation");
    return mark ? Math.pow(10, mark.x) : null;
  }

  function trainedSentence() {
    const figure = oneheadDrawing.current.figure, [xs, ys] = points(figure.data[0]);
    const runs = figure.data.filter((trace) => isTrained(trace) && (trace.yaxis || "y") === "y").flatMap((trace) => trace.x.map((x, i) => [x, trace.y[i]])).filter(([x]) => x >= xs[0] && x <= xs[xs.length - 1]);
    if (!runs.length) return "";
    const off = runs.map(([x, y]) => Math.abs(y / valueAt(xs, ys, x) - 1)), most = Math.max(...off);
    return " " + runs.length + " trained points lie " + Math.round(100 * off.reduce((a, b) => a + b, 0) / runs.length) + " % from the curve on average, at most " + Math.round(100 * most) + " %.";
  }

  function say(text) {
    if ($("guess-text").textContent !== text) $("guess-text").textContent = text;
  }

  // ---- drawing the guess

  function axes() {
    const full = $("picture")._fullLayout;
    return [full.xaxis, full.yaxis, full._size];
  }

  function placePad() {
    const pad = $("guess-pad");
    pad.hidden = phase !== "draw" || !$("picture")._fullLayout;
    if (pad.hidden) return;
    const [x, y] = axes(), left = x._offset + x.d2p(guess.x[0]);
    Object.assign(pad.style, { left: left + "px", top: y._offset + "px", width: x._offset + x._length - left + "px", height: y._length + "px" });
    pad.setAttribute("aria-valuemax", digits(top));
    pad.setAttribute("aria-valuenow", digits(guess.y[at]));
    pad.setAttribute("aria-valuetext", "sample ratio " + digits(guess.x[at]) + ": error " + digits(guess.y[at]));
  }

  function change() {
    $("guess-see").disabled = false;
    oneheadDrawing.redraw();
  }

  // set a point of the guess; points to the right of all that were drawn go on at its height
  function put(i, value) {
    if (i < 1) return; // the first point lies on the curve
    far = Math.max(far, i);
    for (let k = i; k < (i === far ? COUNT : i + 1); k++) guess.y[k] = Math.min(top, Math.max(0, value));
  }

  function listenPad() {
    const pad = $("guess-pad");
    let last = null;
    const place = (e) => {
      const [x, y] = axes(), box = $("picture").getBoundingClientRect();
      const part = Math.log(x.p2d(e.clientX - box.left - x._offset) / guess.x[0]) / Math.log(guess.x[COUNT - 1] / guess.x[0]);
      return [Math.min(COUNT - 1, Math.max(0, Math.round(part * (COUNT - 1)))), y.p2d(e.clientY - box.top - y._offset)];
    };
    const draw = (e) => {
      const [i, value] = place(e), [j, before] = last || [i, value], step = i < j ? 1 : -1;
      for (let k = i; k !== j; k += step) put(k, value + ((before - value) * (k - i)) / (j - i));
      put(i, value);
      at = Math.max(1, i);
      last = [i, value];
      change();
    };
    pad.addEventListener("pointerdown", (e) => {
      e.preventDefault();
      pad.setPointerCapture(e.pointerId);
      pad.focus();
      last = null;
      draw(e);
    });
    pad.addEventListener("pointermove", (e) => {
      if (pad.hasPointerCapture(e.pointerId)) draw(e);
    });
    pad.addEventListener("keydown", (e) => {
      const along = { ArrowRight: 1, ArrowLeft: -1 }[e.key], up = { ArrowUp: 1, ArrowDown: -1, PageUp: 5, PageDown: -5 }[e.key];
      if (e.key === "Enter" && far) see();
      if (!along && !up) return;
      e.preventDefault();
      if (along) {
        at = Math.min(COUNT - 1, Math.max(1, at + along));
        oneheadDrawing.redraw();
        return;
      }
      put(at, guess.y[at] + up * 0.02 * top);
      change();
    });
  }

  // ---- phases

  function show(next) {
    phase = next;
    document.body.classList.toggle("guessing", phase === "draw" || phase === "reveal");
    $("guess-row").hidden = !active();
    $("guess-see").hidden = phase !== "draw";
    $("guess").setAttribute("aria-pressed", active());
    oneheadDrawing.redraw();
    placePad();
  }

  function start() {
    const now = oneheadDrawing.current;
    if (!now || oneheadKnobs.view !== "curve" || !now.figure.data.length) return;
    clearTimeout(timer);
    begin(now.figure);
    asked = now.key;
    $("guess-see").disabled = true;
    say("How does the test error go on with more samples? Draw it, with mouse or finger, or with the arrow keys; then see.");
    show("draw");
    $("guess-pad").focus({ preventScroll: true });
  }

  function see() {
    const now = oneheadDrawing.current, [xs, ys] = points(now.figure.data[0]);
    guess.truth = guess.x.map((v) => valueAt(xs, ys, v)); // the exact curve may have replaced the draft meanwhile
    share = 0;
    landed = 0;
    show("reveal");
    const begun = performance.now();
    const advance = () => {
      share = still() ? 1 : Math.min(1, (performance.now() - begun) / REVEAL);
      if (share < 1) {
        oneheadDrawing.redraw();
        timer = setTimeout(advance, 60);
        return;
      }
      say(verdict(guess, threshold()));
      show("done");
      land();
    };
    advance();
  }

  // trained points on the picture land one by one; a recorded page has a race of its own
  function land() {
    const runs = oneheadDrawing.current.figure.data.filter(isTrained), most = Math.max(0, ...runs.map((trace) => trace.x.length));
    if (!most && settings.recorded && !$("train").hidden && !$("train").disabled) $("train").click();
    landed = still() ? Infinity : landed + 1;
    if (most) oneheadDrawing.redraw();
    if (landed < most) timer = setTimeout(land, LANDING);
    else {
      landed = Infinity;
      say(verdict(guess, threshold()) + trainedSentence());
    }
  }

  function stop() {
    if (!active()) return;
    clearTimeout(timer);
    guess = null;
    show("");
  }

  function moved(key) {
    if (active() && key !== asked) stop(); // another question
  }

  function ready() {
    $("guess").hidden = oneheadKnobs.view !== "curve" || !oneheadDrawing.current.figure.data.length;
    placePad();
    if (wanted && !$("guess").hidden && oneheadDrawing.current.exact) {
      wanted = false;
      start();
    }
  }

  // an address with guess=1 begins with the question, also inside another page
  let wanted = new URLSearchParams(location.search).get("guess") === "1";

  function listen(pageSettings) {
    settings = pageSettings;
    listenPad();
    $("guess").addEventListener("click", () => (active() ? stop() : start()));
    $("guess-see").addEventListener("click", see);
    $("guess-leave").addEventListener("click", () => {
      stop();
      if ($("guess").offsetParent) $("guess").focus();
    });
    document.addEventListener("onehead-drawn", ready);
    addEventListener("resize", placePad);
  }

  window.oneheadGuess = { begin: listen, transform: transform, alt: alt, moved: moved, active: active, verdict: verdict, get guess() { return guess; }, get phase() { return phase; } };
})();
