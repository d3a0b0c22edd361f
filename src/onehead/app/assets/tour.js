// Guided tours: each step sets knobs, may run one of them from here to there, and says what is seen. It can be left at any point.
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

  // run a knob through some values, a step whenever the last one is on the screen
  function walk(name, stops) {
    let now = 0;
    const on = () => {
      if (onehead.drawn === onehead.asked) {
        now += 1;
        const done = now >= stops.length - 1;
        if (done) running = null;
        oneheadKnobs.set({ [name]: stops[now] });
        if (done) return;
      }
      running = setTimeout(on, 220);
    };
    running = setTimeout(on, 600);
  }

  // run a knob along its slider
  function run(name, from, to) {
    const K = oneheadKnobs, k = settings.knobs[name], before = K.values[name];
    const place = (value) => {
      K.values[name] = value;
      return K.position(name);
    };
    const end = place(to), begin = place(from), way = Math.sign(end - begin), stride = Math.max(2, Math.round(Math.abs(end - begin) / 25));
    K.values[name] = before;
    let now = begin;
    const on = () => {
      if (onehead.drawn === onehead.asked) {
        now += way * stride;
        const done = way * (now - end) >= 0;
        if (done) running = null;
        K.set({ [name]: done ? to : K.fromPosition(name, now) });
        if (done) return;
      }
      running = setTimeout(on, 90);
    };
    running = setTimeout(on, 600);
  }

  function show() {
    const step = tour.steps[at], K = oneheadKnobs, moves = Object.entries(step.runs);
    stop();
    $("tour-count").textContent = tour.name + " · " + (at + 1) + " of " + tour.steps.length;
    $("tour-title").textContent = step.title;
    $("tour-text").textContent = settings.recorded && step.recorded ? step.recorded : step.text;
    $("tour-back").disabled = at === 0;
    $("tour-next").textContent = at === tour.steps.length - 1 ? "Done" : "Next";
    const given = Object.assign({}, step.values);
    for (const [name, ends] of moves) given[name] = ends[0];
    K.go(step.view, given, settings.views[step.view].knobs);
    for (const [name, ends] of moves) {
      if (settings.recorded) walk(name, settings.recorded.runs[settings.tours.indexOf(tour)][at]);
      else run(name, ends[0], ends[1]);
    }
    document.body.dataset.tour = at;
  }

  function leave() {
    stop();
    tour = null;
    $("tour").hidden = true;
    delete document.body.dataset.tour;
    $("picture-area").focus({ preventScroll: true });
  }

  function begin(found) {
    settings = found;
    document.querySelectorAll("[data-tour]").forEach((button) => button.addEventListener("click", () => {
      tour = settings.tours[Number(button.dataset.tour)];
      at = 0;
      $("tour").hidden = false;
      show();
      $("tour-title").focus();
    }));
    $("tour-next").addEventListener("click", () => {
      at += 1;
      if (at >= tour.steps.length) leave();
      else show();
    });
    $("tour-back").addEventListener("click", () => {
      at -= 1;
      show();
    });
    $("tour-leave").addEventListener("click", leave);
    addEventListener("keydown", (e) => {
      if (tour && e.key === "Escape") leave();
    });
    // whoever turns a knob while it runs has taken over
    ["pointerdown", "keydown"].forEach((name) => $("knobs").addEventListener(name, stop));
  }

  window.oneheadTour = { begin: begin, moving: moving };
})();
