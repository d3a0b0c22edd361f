// Knobs, the address that says them, and the way back: what the user wants, and nothing of what the server says.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const REST = 700; // milliseconds after which turning a knob is one step for undo
  let settings, view, values, changed = () => {}, past = [], future = [], resting = null, last = null;

  function text(value) {
    return value === true ? "1" : value === false ? "0" : String(value);
  }

  function remember(name, value) {
    try {
      if (value === undefined) return localStorage.getItem("onehead-" + name);
      localStorage.setItem("onehead-" + name, value);
    } catch (error) { /* a page that may not remember still works */ }
    return null;
  }

  // ---- state and address

  function read(query) {
    const known = (name) => name in settings.views && (!settings.recorded || settings.recorded.views.includes(name));
    view = known(query.get("view")) ? query.get("view") : "head";
    values = {};
    for (const [name, knob] of Object.entries(settings.knobs)) {
      const given = query.get(name);
      values[name] = given === null ? knob.default : knob.kind === "switch" ? given === "1" || given === "true" : given;
    }
    snap();
  }

  // ---- what was recorded

  // what a recorded answer is found by: the view, the values of the grid's knobs, and others that are not at their defaults
  function named(where, value) {
    const own = settings.views[where].knobs, stops = Object.keys(settings.recorded.stops);
    const rest = own.filter((name) => !stops.includes(name) && text(value(name)) !== text(settings.knobs[name].default));
    return [where, ...stops.filter((name) => own.includes(name)).map((name) => text(value(name))), ...rest.map((name) => name + "=" + text(value(name)))].join(" ");
  }

  function has(where, value) {
    const { grid, stops, places } = settings.recorded, name = named(where, value);
    const there = Object.keys(stops).every((knob) => stops[knob].map(text).includes(text(value(knob))));
    return places.includes(name) || (grid.includes(where) && there && !name.includes("="));
  }

  // whether a setting is recorded: some knobs, all others at their defaults
  function hasSetting(where, given) {
    return has(where, (knob) => (knob in given ? given[knob] : settings.knobs[knob].default));
  }

  // knobs that a recorded page does not have together go where something was recorded; those just turned stay
  function snap(turned) {
    if (!settings.recorded || has(view, (knob) => values[knob])) return;
    const grid = settings.recorded.grid.includes(view);
    for (const name of settings.views[view].knobs)
      if (!turned || !(name in turned)) values[name] = grid && settings.knobs[name].stops ? nearest(name, values[name]) : settings.knobs[name].default;
    showAll();
  }

  function query() {
    const used = settings.views[view].knobs, out = new URLSearchParams({ view: view });
    for (const [name, knob] of Object.entries(settings.knobs))
      if (used.includes(name) || text(values[name]) !== text(knob.default)) out.set(name, text(values[name]));
    return out;
  }

  function write() {
    const found = "?" + query();
    remember("last", found);
    try {
      history.replaceState(null, "", found);
    } catch (error) { /* a page from a file may not have an address of its own */ }
  }

  // ---- controls

  function position(name) {
    const k = settings.knobs[name], v = Number(values[name]);
    if (k.stops) {
      const gaps = k.stops.map((stop) => Math.abs(Math.log((stop + 1e-9) / (v + 1e-9))));
      return gaps.indexOf(Math.min(...gaps));
    }
    if (!isFinite(v)) return 0;
    const share = k.log ? Math.log(Math.max(v, 1e-300) / k.low) / Math.log(k.high / k.low) : (v - k.low) / (k.high - k.low);
    return Math.round(Math.min(1, Math.max(0, share)) * k.steps);
  }

  function fromPosition(name, at) {
    const k = settings.knobs[name];
    if (k.stops) return k.stops[Math.min(k.stops.length - 1, Math.max(0, Math.round(at)))];
    const share = at / k.steps, v = k.log ? k.low * Math.pow(k.high / k.low, share) : k.low + (k.high - k.low) * share;
    return k.kind === "integer" ? Math.round(v) : Number(v.toPrecision(k.log ? 3 : 6));
  }

  function nearest(name, value) {
    if (!settings.knobs[name].stops) return value;
    const before = values[name];
    values[name] = value;
    const found = fromPosition(name, position(name));
    values[name] = before;
    return found;
  }

  function showKnob(name) {
    const control = $("knob-" + name), slide = $("slide-" + name);
    if (!control) return;
    if (control.type === "checkbox") control.checked = values[name] === true;
    else if (document.activeElement !== control || control.tagName === "SELECT") control.value = text(values[name]);
    if (slide) {
      slide.value = position(name);
      slide.setAttribute("aria-valuetext", text(values[name]));
    }
  }

  function showAll() {
    document.querySelectorAll("[data-views]").forEach((e) => e.toggleAttribute("hidden", !e.dataset.views.split(" ").includes(view)));
    document.querySelectorAll("details.rare").forEach((more) => {
      const inside = Array.from(more.querySelectorAll(".knob:not([hidden]) [data-knob]"), (c) => c.dataset.knob);
      more.hidden = !inside.length;
      if (inside.some((name) => text(values[name]) !== text(settings.knobs[name].default))) more.open = true;
    });
    document.querySelectorAll("fieldset").forEach((f) => (f.hidden = !f.querySelector(".knob:not([hidden])")));
    Object.keys(settings.knobs).forEach(showKnob);
  }

  function showWrong(wrong) {
    document.querySelectorAll(".wrong").forEach((p) => {
      const name = p.id.slice(6), sentence = wrong[name], control = $("knob-" + name);
      p.hidden = !sentence;
      p.textContent = sentence || "";
      if (sentence && p.closest("details")) p.closest("details").open = true;
      if (control) control.setAttribute("aria-invalid", sentence ? "true" : "false");
    });
  }

  // ---- changes, and the way back

  function snapshot() {
    return { view: view, values: Object.assign({}, values) };
  }

  function same(a, b) {
    return a.view === b.view && Object.keys(a.values).every((name) => text(a.values[name]) === text(b.values[name]));
  }

  function settle() {
    clearTimeout(resting);
    resting = null;
    const now = snapshot();
    if (!same(last, now)) {
      past.push(last);
      if (past.length > 200) past.shift();
      future = [];
      last = now;
    }
    showUndo();
  }

  function showUndo() {
    $("undo").disabled = !past.length && same(last, snapshot());
    $("redo").disabled = !future.length;
  }

  function restore(from, to) {
    settle();
    if (!from.length) return;
    to.push(last);
    last = from.pop();
    const moved = view !== last.view;
    view = last.view;
    values = Object.assign({}, last.values);
    showAll();
    write();
    showUndo();
    changed(moved);
  }

  // some knobs turn; with `quiet` the server has moved them, which is no step of the user
  function set(changes, quiet) {
    Object.assign(values, changes);
    snap(changes);
    Object.keys(changes).forEach(showKnob);
    write();
    if (quiet) {
      last = Object.assign({}, last, { values: Object.assign({}, last.values, changes) });
      return;
    }
    clearTimeout(resting);
    resting = setTimeout(settle, REST);
    $("undo").disabled = false;
    changed(false);
  }

  // another view, with some knobs: one step for undo
  function go(name, changes, clear) {
    settle();
    const moved = view !== name;
    if (moved) {
      try {
        history.pushState(null, "", location.href);
      } catch (error) { /* see write */ }
    }
    view = name;
    for (const knob of clear || []) values[knob] = settings.knobs[knob].default;
    Object.assign(values, changes);
    snap();
    settle();
    showAll();
    write();
    changed(moved);
  }

  function listen() {
    document.querySelectorAll("[data-slide]").forEach((slide) => {
      const name = slide.dataset.slide;
      slide.addEventListener("input", () => set({ [name]: fromPosition(name, Number(slide.value)) }));
    });
    document.querySelectorAll("[data-knob]").forEach((control) => {
      const name = control.dataset.knob;
      control.addEventListener("change", () => {
        const typed = control.type === "checkbox" ? control.checked : control.value.trim().replace(",", ".");
        if (text(typed) !== text(values[name])) set({ [name]: settings.recorded ? nearest(name, typed) : typed });
      });
      if (control.type !== "text") return;
      control.addEventListener("keydown", (e) => {
        const way = { ArrowUp: 1, ArrowDown: -1 }[e.key], k = settings.knobs[name];
        if (!way) return;
        e.preventDefault();
        set({ [name]: fromPosition(name, Math.min(k.steps, Math.max(0, position(name) + way))) });
        control.value = text(values[name]);
      });
    });
    $("knobs").addEventListener("submit", (e) => e.preventDefault());
    $("undo").addEventListener("click", () => restore(past, future));
    $("redo").addEventListener("click", () => restore(future, past));
    $("reset").addEventListener("click", () => go(view, {}, Object.keys(settings.knobs)));
    $("preset").addEventListener("change", () => {
      const preset = settings.presets[Number($("preset").value)];
      if ($("preset").value === "" || !preset) return;
      go(preset.view, preset.values, settings.views[preset.view].knobs);
      $("preset").value = "";
    });
    addEventListener("keydown", (e) => {
      if (!(e.ctrlKey || e.metaKey) || e.key.toLowerCase() !== "z" || e.target.type === "text") return;
      e.preventDefault();
      if (e.shiftKey) restore(future, past);
      else restore(past, future);
    });
    addEventListener("popstate", () => {
      settle();
      read(new URLSearchParams(location.search));
      settle();
      showAll();
      changed(true);
    });
  }

  // a recorded page has a few knobs, and each stops where it was recorded; which panel is shown can be chosen everywhere
  function restrict(recorded) {
    document.querySelectorAll("[data-knob]").forEach((control) => {
      const name = control.dataset.knob, stops = recorded.stops[name], box = control.closest(".knob");
      if (name.endsWith("_panel")) return;
      box.dataset.views = stops ? recorded.grid.filter((where) => settings.views[where].knobs.includes(name)).join(" ") : "";
      if (!stops) return;
      Object.assign(settings.knobs[name], { stops: stops, steps: stops.length - 1, low: stops[0], high: stops[stops.length - 1] });
      $("slide-" + name).max = stops.length - 1;
    });
    document.querySelectorAll("#preset option").forEach((option) => {
      const preset = settings.presets[Number(option.value)];
      if (option.value !== "" && !hasSetting(preset.view, preset.values)) option.remove();
    });
    $("preset").hidden = $("preset").options.length < 2;
    document.querySelectorAll("[data-tour]").forEach((button) => {
      const begin = (step) => Object.assign({}, step.values, Object.fromEntries(Object.entries(step.runs).map(([name, ends]) => [name, ends[0]])));
      button.hidden = !settings.tours[Number(button.dataset.tour)].steps.every((step) => recorded.views.includes(step.view) && hasSetting(step.view, begin(step)));
    });
  }

  function begin(found, whenChanged) {
    settings = found;
    changed = whenChanged;
    if (settings.recorded) restrict(settings.recorded);
    read(new URLSearchParams(location.search || remember("last") || ""));
    last = snapshot();
    listen();
    showAll();
    write();
    showUndo();
  }

  window.oneheadKnobs = {
    begin: begin, set: set, go: go, query: query, position: position, fromPosition: fromPosition, nearest: nearest, text: text, named: named,
    showWrong: showWrong, showKnob: showKnob, remember: remember, settle: settle,
    get view() { return view; },
    get values() { return values; },
  };
})();
