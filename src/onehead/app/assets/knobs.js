// The knobs, the address that stores their values, and undo. Nothing here depends on answers of the server.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const UNDO_PAUSE = 700; // milliseconds without a change after which the changes become one step of undo
  let settings, view, values, onChange = () => {}, past = [], future = [], undoTimer = null, last = null, first = false, embedded = false;

  // a value as the address writes it
  function text(value) {
    return value === true ? "1" : value === false ? "0" : String(value);
  }

  // what was typed, as the address writes it: commas that separate groups of three digits are left out, a single other comma is a decimal point
  function typedText(typed) {
    const trimmed = typed.trim();
    return /^[1-9]\d{0,2}(,\d{3})+(\.\d*)?$/.test(trimmed) ? trimmed.replaceAll(",", "") : trimmed.replace(",", ".");
  }

  // read, or with a value write, a preference that the browser keeps
  function remember(name, value) {
    try {
      if (value === undefined) return localStorage.getItem("onehead-" + name);
      localStorage.setItem("onehead-" + name, value);
    } catch (error) { /* the page also works where storage is forbidden */ }
    return null;
  }

  // ---- state and address

  function read(query) {
    // names come from the address: "constructor" is a property of every object, but not a view
    const known = (name) => Object.hasOwn(settings.views, name) && (!settings.recorded || settings.recorded.views.includes(name));
    view = known(query.get("view")) ? query.get("view") : "head";
    values = {};
    for (const [name, knob] of Object.entries(settings.knobs)) {
      const given = query.get(name);
      values[name] = given === null ? knob.default : knob.kind === "switch" ? given === "1" || given === "true" : given;
    }
    untie();
    snap();
  }

  // a view without tied heads opens with cross-attention
  function untie() {
    if (settings.views[view].untied && values.attention === "tied") values.attention = "cross";
  }

  // ---- recorded answers

  // name of a recorded answer: the view, the knobs of the grid but for one that is left out, and other knobs that differ from their defaults; the method `name`
  // of `Grid` in recording.py computes the same name
  function recordName(viewName, value, without) {
    const own = settings.views[viewName].knobs, stops = Object.keys(settings.recorded.stops);
    const onGrid = stops.filter((name) => own.includes(name) && name !== without);
    const others = own.filter((name) => !stops.includes(name) && text(value(name)) !== text(settings.knobs[name].default));
    return [viewName, ...onGrid.map((name) => text(value(name))), ...others.map((name) => name + "=" + text(value(name)))].join(" ");
  }

  function isRecorded(viewName, value) {
    const { grid, stops, offGrid } = settings.recorded, name = recordName(viewName, value);
    const onStops = Object.keys(stops).every((knob) => stops[knob].map(text).includes(text(value(knob))));
    return offGrid.includes(name) || (grid.includes(viewName) && onStops && !name.includes("="));
  }

  // whether a setting is recorded: some knobs as given, all others at their defaults
  function isSettingRecorded(viewName, given) {
    return isRecorded(viewName, (knob) => (knob in given ? given[knob] : settings.knobs[knob].default));
  }

  // without a server: if the combination of knobs is neither recorded nor one that the page can solve, reset those that the page
  // cannot solve, and if that is not enough all but those just changed
  function snap(changes) {
    const known = () => isRecorded(view, (knob) => values[knob]) || oneheadDrafts.supports(view, values);
    if (!settings.recorded || known()) return;
    const others = settings.views[view].knobs.filter((name) => !changes || !(name in changes));
    for (const name of others) if (!settings.recorded.solverKnobs.includes(name)) values[name] = settings.knobs[name].default;
    if (!known()) for (const name of others) values[name] = settings.knobs[name].default;
    showAll();
  }

  function addressQuery() {
    const used = settings.views[view].knobs, query = new URLSearchParams({ view: view });
    if (embedded) query.set("embed", "1");
    for (const [name, knob] of Object.entries(settings.knobs))
      if (used.includes(name) || text(values[name]) !== text(knob.default)) query.set(name, text(values[name]));
    return query;
  }

  function write() {
    const search = "?" + addressQuery();
    if (!embedded) remember("last", search);
    try {
      history.replaceState(null, "", search);
    } catch (error) { /* a page opened from a file may not change its address */ }
  }

  // ---- controls

  // position of a slider that belongs to the value of its knob, and the value that belongs to a position
  function position(name) {
    const k = settings.knobs[name], v = Number(values[name]);
    if (!isFinite(v)) return 0;
    const share = k.log ? Math.log(Math.max(v, 1e-300) / k.low) / Math.log(k.high / k.low) : (v - k.low) / (k.high - k.low);
    return Math.round(Math.min(1, Math.max(0, share)) * k.steps);
  }

  // a page without a server: the recorded values of a knob that has some of its own, and the nearest of them
  function ownStops(name) {
    return (settings.recorded && settings.recorded.ownStops && settings.recorded.ownStops[name]) || null;
  }

  function nearest(name, v) {
    return ownStops(name).reduce((best, stop) => (Math.abs(Math.log(stop / v)) < Math.abs(Math.log(best / v)) ? stop : best));
  }

  function fromPosition(name, at) {
    const k = settings.knobs[name];
    const share = at / k.steps, v = k.log ? k.low * Math.pow(k.high / k.low, share) : k.low + (k.high - k.low) * share;
    if (ownStops(name)) return nearest(name, v);
    return k.kind === "integer" ? Math.round(v) : Number(v.toPrecision(k.log ? 3 : 6));
  }

  function showKnob(name) {
    const control = $("knob-" + name), slide = $("slide-" + name);
    if (!control) return;
    if (control.type === "checkbox") control.checked = values[name] === true;
    else if (!control.dataset.typing) control.value = text(values[name]); // a value that is being typed is left alone
    if (slide) {
      slide.value = position(name);
      slide.setAttribute("aria-valuetext", text(values[name]));
    }
  }

  function showAll() {
    const own = settings.views[view].panel, shown = (e) => e.dataset.views.split(" ").includes(view) && (!e.dataset.panels || e.dataset.panels.split(" ").includes(values[own]));
    document.querySelectorAll("[data-views]").forEach((e) => e.toggleAttribute("hidden", !shown(e)));
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

  // ---- changes and undo

  function snapshot() {
    return { view: view, values: Object.assign({}, values) };
  }

  function equal(a, b) {
    return a.view === b.view && Object.keys(a.values).every((name) => text(a.values[name]) === text(b.values[name]));
  }

  // finish a step of undo
  function settle() {
    clearTimeout(undoTimer);
    undoTimer = null;
    const now = snapshot();
    if (!equal(last, now)) {
      past.push(last);
      if (past.length > 200) past.shift();
      future = [];
      last = now;
    }
    showUndo();
  }

  function showUndo() {
    $("undo").disabled = !past.length && equal(last, snapshot());
    $("redo").disabled = !future.length;
  }

  function restore(from, to) {
    settle();
    if (!from.length) return;
    to.push(last);
    last = from.pop();
    const viewChanged = view !== last.view;
    view = last.view;
    values = Object.assign({}, last.values);
    showAll();
    write();
    showUndo();
    onChange(viewChanged);
  }

  // set some knobs; with `byServer` the server has adjusted them, which is not a step of undo
  function set(changes, byServer) {
    Object.assign(values, changes);
    for (const name of Object.keys(changes)) if (ownStops(name) && Number(changes[name]) > 0) values[name] = nearest(name, Number(changes[name]));
    snap(changes);
    if (settings.views[view].panel in changes) showAll();
    else Object.keys(changes).forEach(showKnob);
    write();
    if (byServer) {
      last = Object.assign({}, last, { values: Object.assign({}, last.values, changes) });
      return;
    }
    clearTimeout(undoTimer);
    undoTimer = setTimeout(settle, UNDO_PAUSE);
    $("undo").disabled = false;
    onChange(false);
  }

  // go to a view and set some knobs, after resetting those in `clear`: one step of undo
  function go(name, changes, clear) {
    settle();
    const viewChanged = view !== name;
    if (viewChanged) {
      try {
        history.pushState(null, "", location.href);
      } catch (error) { /* see write */ }
    }
    view = name;
    for (const knob of clear || []) values[knob] = settings.knobs[knob].default;
    Object.assign(values, changes);
    untie();
    snap();
    settle();
    showAll();
    write();
    onChange(viewChanged);
  }

  function listen() {
    document.querySelectorAll("[data-slide]").forEach((slide) => {
      const name = slide.dataset.slide;
      slide.addEventListener("input", () => set({ [name]: fromPosition(name, Number(slide.value)) }));
    });
    document.querySelectorAll("[data-knob]").forEach((control) => {
      const name = control.dataset.knob;
      control.addEventListener("change", () => {
        delete control.dataset.typing;
        const typed = control.type === "checkbox" ? control.checked : typedText(control.value);
        if (text(typed) !== text(values[name])) set({ [name]: typed });
        showKnob(name); // also where the value is the one before, written in another way
      });
      if (control.type !== "text") return;
      control.addEventListener("input", () => (control.dataset.typing = "1"));
      control.addEventListener("blur", () => {
        delete control.dataset.typing;
        showKnob(name);
      });
      control.addEventListener("keydown", (e) => {
        const direction = { ArrowUp: 1, ArrowDown: -1 }[e.key], k = settings.knobs[name];
        if (!direction) return;
        e.preventDefault();
        delete control.dataset.typing;
        set({ [name]: fromPosition(name, Math.min(k.steps, Math.max(0, position(name) + direction))) });
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
      // while a value is being typed, undo is that of the field
      if (!(e.ctrlKey || e.metaKey) || e.key.toLowerCase() !== "z" || e.target.dataset && e.target.dataset.typing) return;
      e.preventDefault();
      if (e.shiftKey) restore(future, past);
      else restore(past, future);
    });
    addEventListener("popstate", () => {
      settle();
      read(new URLSearchParams(location.search));
      settle();
      showAll();
      onChange(true);
    });
  }

  // a page without a server keeps the knobs that its solver knows, and those that choose a panel
  function restrict(recorded) {
    document.querySelectorAll("[data-knob]").forEach((control) => {
      const name = control.dataset.knob, box = control.closest(".knob");
      if (name.endsWith("_panel")) return;
      if (ownStops(name)) return;
      const own = recorded.solverKnobs.includes(name);
      box.dataset.views = own ? recorded.solver.filter((viewName) => settings.views[viewName].knobs.includes(name)).join(" ") : "";
      if (own && control.tagName === "SELECT") control.querySelectorAll("option").forEach((option) => {
        option.disabled = !recorded.solver.some((viewName) => oneheadDrafts.supports(viewName, { [name]: option.value }));
      });
    });
    document.querySelectorAll("#preset option").forEach((option) => {
      const preset = settings.presets[Number(option.value)];
      if (option.value !== "" && !isSettingRecorded(preset.view, preset.values)) option.remove();
    });
    $("preset").hidden = $("preset").options.length < 2;
    document.querySelectorAll("[data-tour]").forEach((button) => {
      const start = (step) => Object.assign({}, step.values, Object.fromEntries(Object.entries(step.runs).map(([name, ends]) => [name, ends[0]])));
      button.hidden = !settings.tours[Number(button.dataset.tour)].steps.every((step) => recorded.views.includes(step.view) && isSettingRecorded(step.view, start(step)));
    });
  }

  // show only the first knobs, until the reader asks for all of them
  function showFew(few) {
    document.body.classList.toggle("few", few);
    $("all-knobs").setAttribute("aria-expanded", !few);
  }

  function begin(pageSettings, changeCallback) {
    settings = pageSettings;
    onChange = changeCallback;
    oneheadDrafts.begin(settings);
    if (settings.recorded) restrict(settings.recorded);
    for (const [name, knob] of Object.entries(settings.knobs)) {
      const control = $("knob-" + name);
      if (control && !knob.first) control.closest(".knob").classList.add("later");
    }
    $("all-knobs").addEventListener("click", () => showFew(false));
    // a page inside another page: the picture alone
    embedded = new URLSearchParams(location.search).get("embed") === "1";
    document.body.classList.toggle("embed", embedded);
    first = !location.search && !remember("last");
    showFew(first);
    read(new URLSearchParams(location.search || remember("last") || ""));
    last = snapshot();
    listen();
    showAll();
    write();
    showUndo();
  }

  window.oneheadKnobs = {
    begin: begin, set: set, go: go, query: addressQuery, position: position, fromPosition: fromPosition, text: text,
    recordName: recordName, showWrong: showWrong, showKnob: showKnob, remember: remember, settle: settle,
    ownStops: ownStops,
    get first() { return first; },
    get view() { return view; },
    get values() { return values; },
  };
})();
