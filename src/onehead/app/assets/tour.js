// Guided tours: each step sets knobs, may move one of them, and explains the picture. A tour can be left at any time.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  let settings, tour = null, at = 0, running = null;

  function moving() {
    return running !== null;
  }

  function stop() {
    clearTimeout(running);
    running = null;
  }

  // move a knob through recorded values, the next one when the picture of the last is on the screen
  function runThroughStops(name, stops) {
    let now = 0;
    const advance = () => {
      if (onehead.drawn === onehead.asked) {
        now += 1;
        const done = now >= stops.length - 1;
        if (done) running = null;
        oneheadKnobs.set({ [name]: stops[now] });
        if (done) return;
      }
      running = setTimeout(advance, 220);
    };
    running = setTimeout(advance, 600);
  }

  // move a knob along its slider
  function runAlongSlider(name, from, to) {
    const K = oneheadKnobs, before = K.values[name];
    const positionOf = (value) => {
      K.values[name] = value;
      return K.position(name);
    };
    const end = positionOf(to), begin = positionOf(from), direction = Math.sign(end - begin), stride = Math.max(2, Math.round(Math.abs(end - begin) / 25));
    K.values[name] = before;
    let now = begin;
    const advance = () => {
      if (onehead.drawn === onehead.asked) {
        now += direction * stride;
        const done = direction * (now - end) >= 0;
        if (done) running = null;
        K.set({ [name]: done ? to : K.fromPosition(name, now) });
        if (done) return;
      }
      running = setTimeout(advance, 90);
    };
    running = setTimeout(advance, 600);
  }

  // outline the elements that a step speaks of
  function highlight(step) {
    document.querySelectorAll(".pointed").forEach((element) => element.classList.remove("pointed"));
    if (!step) return;
    const knobs = Object.keys(step.runs).map((name) => $("knob-" + name).closest(".knob"));
    const element = step.highlight && $(step.highlight);
    [...knobs, ...(element ? [element] : [])].forEach((found) => found.classList.add("pointed"));
  }

  // the height of the tour, which the picture below it leaves free
  function measure() {
    document.documentElement.style.setProperty("--tour", $("tour").hidden ? "0px" : $("tour").offsetHeight + "px");
  }

  function turn(by) {
    if (at + by < 0) return;
    at += by;
    if (at >= tour.steps.length) leave();
    else show();
  }

  function show() {
    const step = tour.steps[at], K = oneheadKnobs, moves = Object.entries(step.runs);
    stop();
    $("tour-count").textContent = tour.name + " · " + (at + 1) + " of " + tour.steps.length;
    $("tour-title").textContent = step.title;
    $("tour-text").textContent = settings.recorded && step.recorded ? step.recorded : step.text;
    $("tour-back").disabled = at === 0;
    $("tour-next").textContent = at === tour.steps.length - 1 ? "Done" : "Next";
    const values = Object.assign({}, step.values);
    // without motion a step shows where its knobs end
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const stops = (k) => settings.recorded.runs[settings.tours.indexOf(tour)][k];
    for (const [name, ends] of moves) values[name] = !still ? ends[0] : settings.recorded ? stops(at).at(-1) : ends[1];
    K.go(step.view, values, settings.views[step.view].knobs);
    highlight(step);
    measure();
    for (const [name, ends] of still ? [] : moves) {
      if (settings.recorded) runThroughStops(name, stops(at));
      else runAlongSlider(name, ends[0], ends[1]);
    }
    document.body.dataset.tour = at;
  }

  function leave() {
    stop();
    tour = null;
    $("tour").hidden = true;
    highlight(null);
    measure();
    delete document.body.dataset.tour;
    $("picture-area").focus({ preventScroll: true });
  }

  function begin(pageSettings) {
    settings = pageSettings;
    document.querySelectorAll("[data-tour]").forEach((button) => button.addEventListener("click", () => {
      tour = settings.tours[Number(button.dataset.tour)];
      at = 0;
      $("tour").hidden = false;
      show();
      $("tour-title").focus();
    }));
    $("tour-next").addEventListener("click", () => turn(1));
    $("tour-back").addEventListener("click", () => turn(-1));
    $("tour-leave").addEventListener("click", leave);
    addEventListener("keydown", (e) => {
      if (!tour) return;
      // a presenter sends these two keys
      const by = { PageDown: 1, PageUp: -1 }[e.key];
      if (by) {
        e.preventDefault();
        turn(by);
      } else if (e.key === "Escape") leave();
    });
    addEventListener("resize", measure);
    // touching a knob stops the movement
    ["pointerdown", "keydown"].forEach((name) => $("knobs").addEventListener(name, stop));
  }

  window.oneheadTour = { begin: begin, moving: moving };
})();
