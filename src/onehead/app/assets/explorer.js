// The page: knobs <-> address <-> questions to the server. Pictures are drawn by Dash, everything else here is plain DOM.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const page = Array.from(crypto.getRandomValues(new Uint8Array(9)), (b) => b.toString(36)).join("");
  const quiet = { report: 180, picture: 400 }; // milliseconds of rest before the dearer questions
  let settings, view, values, theme, file = "", timers = {}, playing = null, polling = null, exactNumbers = [];
  const seen = { asked: 0, drawn: 0, reported: 0, exact: 0, waiting: false, pending: false, trained: null };
  window.onehead = seen; // for tests and for the curious

  // ---- state and address

  function readAddress() {
    const query = new URLSearchParams(location.search);
    view = query.get("view") in settings.views ? query.get("view") : "curve";
    values = {};
    for (const [name, knob] of Object.entries(settings.knobs)) {
      const given = query.get(name);
      values[name] = given === null ? knob.default : knob.kind === "switch" ? given === "1" || given === "true" : given;
    }
  }

  function text(value) {
    return value === true ? "1" : value === false ? "0" : String(value);
  }

  function query() {
    const used = settings.views[view].knobs, out = new URLSearchParams({ view: view });
    for (const [name, knob] of Object.entries(settings.knobs))
      if (used.includes(name) || text(values[name]) !== text(knob.default)) out.set(name, text(values[name]));
    return out;
  }

  function writeAddress() {
    history.replaceState(null, "", "?" + query());
    const link = new URLSearchParams(query());
    if (file) link.set("file", file);
    $("csv").href = "data.csv?" + link;
  }

  // ---- knobs

  function position(name) {
    const k = settings.knobs[name], v = Number(values[name]);
    if (!isFinite(v)) return 0;
    const share = k.log ? Math.log(Math.max(v, 1e-300) / k.low) / Math.log(k.high / k.low) : (v - k.low) / (k.high - k.low);
    return Math.round(Math.min(1, Math.max(0, share)) * k.steps);
  }

  function fromPosition(name, at) {
    const k = settings.knobs[name], share = at / k.steps;
    const v = k.log ? k.low * Math.pow(k.high / k.low, share) : k.low + (k.high - k.low) * share;
    return k.kind === "integer" ? Math.round(v) : Number(v.toPrecision(k.log ? 3 : 6));
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

  function set(changes, options) {
    Object.assign(values, changes);
    Object.keys(changes).forEach(showKnob);
    if ("attention" in changes) showLead();
    writeAddress();
    if (!options || !options.silent) draw();
  }

  function showLead() {
    const own = settings.views[view], [about, formula] = own.heads[values.attention] || [own.about, own.formula];
    $("about").textContent = about;
    $("formula").setAttribute("aria-label", "Formula: " + formula);
    katex.render(formula, $("formula"), { throwOnError: false, displayMode: false });
  }

  function showAll() {
    const own = settings.views[view];
    document.querySelectorAll("[data-views]").forEach((e) => (e.hidden = !e.dataset.views.split(" ").includes(view)));
    document.querySelectorAll("fieldset").forEach((f) => (f.hidden = !f.querySelector(".knob:not([hidden])")));
    document.querySelectorAll("nav a").forEach((a) => {
      const mine = a.dataset.view === view;
      a.setAttribute("aria-selected", mine);
      a.tabIndex = mine ? 0 : -1;
    });
    Object.keys(settings.knobs).forEach(showKnob);
    $("title").textContent = own.title;
    document.title = own.title + " · onehead explorer";
    showLead();
    const lead = document.querySelector(".lead").offsetHeight + ($("drop").hidden ? 0 : $("drop").offsetHeight);
    document.documentElement.style.setProperty("--lead", lead + 12 + "px");
    const tab = document.querySelector('nav a[aria-selected="true"]'), bar = tab.parentElement;
    bar.scrollLeft = tab.offsetLeft - bar.offsetLeft - (bar.clientWidth - tab.offsetWidth) / 2;
    $("play").hidden = !own.plays;
    stopPlaying();
    showWrong({});
  }

  function showWrong(wrong) {
    document.querySelectorAll(".wrong").forEach((p) => {
      const name = p.id.slice(6), sentence = wrong[name];
      p.hidden = !sentence;
      p.textContent = sentence || "";
      const control = $("knob-" + name);
      if (control) control.setAttribute("aria-invalid", sentence ? "true" : "false");
    });
  }

  // ---- questions

  function ask(kind, more) {
    const question = { query: Object.fromEntries(query()), n: seen.asked, page: page, theme: theme, file: file, narrow: innerWidth < 760 };
    dash_clientside.set_props("ask-" + kind, { data: Object.assign(question, more || {}) });
  }

  function later(kind) {
    clearTimeout(timers[kind]);
    timers[kind] = setTimeout(() => ask(kind), quiet[kind]);
  }

  function draw(first) {
    clearTimeout(timers.report);
    clearTimeout(timers.picture);
    seen.asked += 1;
    $("numbers").classList.add("stale");
    if (seen.waiting && Date.now() - seen.waiting < 4000) {
      seen.pending = true; // one question at a time: the newest is asked when the answer is there
      return;
    }
    seen.pending = false;
    seen.waiting = Date.now();
    ask("draw", first === true ? { first: true } : {});
  }

  function toldDraw(answer) {
    seen.waiting = false;
    showWrong(answer.wrong || {});
    if (seen.pending) {
      seen.asked -= 1; // the pending question keeps its number
      draw();
      return;
    }
    if (answer.n !== seen.asked) return;
    set(answer.moved || {}, { silent: true });
    const refused = Object.values(answer.wrong || {});
    if (refused.length) {
      badge("failed", refused[0], []);
      if (!answer.caption) return;
    }
    exactNumbers = [];
    $("caption").textContent = answer.caption || "";
    $("python").textContent = answer.python || "";
    $("shell").textContent = answer.shell || "";
    seen.drawn = answer.n;
    if (!playing && !refused.length) later("report");
  }

  function toldReport(answer) {
    if (answer.n !== seen.asked || answer.stopped) return;
    badge(...answer.badge);
    numbers(answer.numbers);
    seen.reported = answer.n;
    later("picture");
  }

  function toldPicture(answer) {
    if (answer.n !== seen.asked || answer.stopped) return;
    if (answer.sentence) {
      $("caption").textContent = answer.sentence;
    } else {
      dash_clientside.set_props("picture", { figure: answer.figure });
      $("caption").textContent = answer.caption;
      if (answer.numbers.length) {
        exactNumbers = answer.numbers;
        appendNumbers(exactNumbers);
      }
    }
    seen.exact = answer.n;
  }

  function badge(level, sentence, notes) {
    $("badge").className = "badge " + level;
    $("badge").firstChild.textContent = level;
    $("badge").lastChild.textContent = sentence === level ? "" : sentence;
    $("notes").replaceChildren(...notes.map((note) => Object.assign(document.createElement("li"), { textContent: note })));
  }

  function row(number) {
    const [name, symbol, value, meaning] = number, tr = document.createElement("tr");
    const th = document.createElement("th"), td = document.createElement("td");
    th.scope = "row";
    th.textContent = name;
    if (symbol) {
      const s = document.createElement("span");
      s.className = "symbol";
      s.textContent = " " + symbol;
      th.append(s);
    }
    if (meaning) th.append(Object.assign(document.createElement("small"), { textContent: meaning }));
    td.textContent = value;
    td.dataset.number = name;
    tr.append(th, td);
    return tr;
  }

  function numbers(rows) {
    $("numbers").classList.remove("stale");
    $("numbers").tBodies[0].replaceChildren(...rows.map(row));
  }

  function appendNumbers(rows) {
    const body = $("numbers").tBodies[0];
    rows.forEach((number) => {
      const old = Array.from(body.rows).find((r) => r.cells[1].dataset.number === number[0]);
      if (old) old.replaceWith(row(number));
      else body.append(row(number));
    });
  }

  // ---- training

  function toldTrain(answer) {
    const running = answer.running;
    seen.trained = answer;
    $("train").disabled = running;
    $("cancel").hidden = !running;
    $("trained").hidden = !running;
    $("trained").max = answer.total || 1;
    $("trained").value = answer.done;
    $("training-says").textContent = running ? answer.done + " of " + answer.total + " runs" : answer.sentence;
    if (answer.done !== toldTrain.done || running !== toldTrain.running) {
      if (toldTrain.done !== undefined && (answer.done || !running)) redraw();
      toldTrain.done = answer.done;
      toldTrain.running = running;
    }
    clearTimeout(polling);
    if (running) polling = setTimeout(() => ask("train", { do: "look" }), 700);
  }

  function redraw() {
    // the same state with new runs over it: keep the exact curve if it is there
    if (seen.exact === seen.asked) ask("picture");
    else draw();
  }

  // ---- play

  function stopPlaying() {
    if (!playing) return;
    clearTimeout(playing);
    playing = null;
    $("play").textContent = "▶ Play α";
    $("play").setAttribute("aria-pressed", "false");
  }

  function play() {
    if (playing) {
      stopPlaying();
      draw();
      return;
    }
    const name = settings.views[view].plays, k = settings.knobs[name];
    let at = position(name);
    if (at >= k.steps - 1) at = 0;
    $("play").textContent = "❚❚ Pause";
    $("play").setAttribute("aria-pressed", "true");
    const step = () => {
      if (seen.drawn === seen.asked) {
        at += 2;
        if (at > k.steps) {
          stopPlaying();
          draw();
          return;
        }
        set({ [name]: fromPosition(name, at) });
      }
      playing = setTimeout(step, 70);
    };
    playing = setTimeout(step, 0);
  }

  // ---- files

  function send(chosen) {
    if (!chosen) return;
    const says = $("file-says"), bar = $("sent"), request = new XMLHttpRequest();
    const address = new URLSearchParams({ name: chosen.name, heads: text(values.heads) });
    says.textContent = "Sending " + chosen.name + " …";
    bar.hidden = false;
    request.open("POST", "checkpoint?" + address);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (e) => {
      bar.value = e.loaded / e.total;
      if (e.loaded === e.total) says.textContent = "Reading " + chosen.name + " …";
    };
    request.onerror = () => {
      bar.hidden = true;
      says.textContent = "The file could not be sent; it may be larger than 1 GB.";
    };
    request.onload = () => {
      bar.hidden = true;
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch (error) { /* said below */ }
      if (request.status !== 200 || !answer.file) {
        says.textContent = answer.sentence || "The file could not be read.";
        return;
      }
      file = answer.file;
      says.textContent = chosen.name + ": " + answer.heads + " heads in " + answer.layers + " layers.";
      settings.knobs.layer.high = Math.max(1, answer.layers - 1);
      settings.knobs.head.high = Math.max(1, Math.ceil(answer.heads / answer.layers) - 1);
      for (const name of ["layer", "head"]) {
        settings.knobs[name].steps = settings.knobs[name].high;
        $("slide-" + name).max = settings.knobs[name].high;
        showKnob(name);
      }
      writeAddress();
      draw();
    };
    request.send(chosen);
  }

  // ---- start

  function setTheme(name) {
    theme = name;
    document.documentElement.dataset.theme = name;
    $("theme").textContent = name === "dark" ? "Light" : "Dark";
    $("theme").setAttribute("aria-pressed", name === "dark");
  }

  function save(format) {
    const gd = document.querySelector("#picture .js-plotly-plot"), box = gd.getBoundingClientRect();
    const ground = theme === "dark" ? "#1a1e24" : "#ffffff";
    const picture = { data: gd.data, layout: Object.assign({}, gd.layout, { paper_bgcolor: ground }) };
    Plotly.downloadImage(picture, {
      format: format, filename: "onehead-" + view, width: Math.round(box.width), height: Math.round(box.height), scale: format === "png" ? 2 : 1,
    });
  }

  function listen() {
    document.querySelectorAll("[data-slide]").forEach((slide) => {
      slide.addEventListener("input", () => set({ [slide.dataset.slide]: fromPosition(slide.dataset.slide, Number(slide.value)) }));
    });
    document.querySelectorAll("[data-knob]").forEach((control) => {
      const name = control.dataset.knob;
      control.addEventListener("change", () => {
        const typed = control.type === "checkbox" ? control.checked : control.value.trim().replace(",", ".");
        if (text(typed) !== text(values[name])) set({ [name]: typed });
      });
      if (control.type === "text") {
        control.addEventListener("keydown", (e) => {
          const way = { ArrowUp: 1, ArrowDown: -1 }[e.key];
          if (!way) return;
          e.preventDefault();
          const k = settings.knobs[name];
          set({ [name]: fromPosition(name, Math.min(k.steps, Math.max(0, position(name) + way))) });
          control.value = text(values[name]);
        });
      }
    });
    document.querySelectorAll("nav a").forEach((a) => {
      a.addEventListener("click", (e) => {
        e.preventDefault();
        go(a.dataset.view, {});
      });
      a.addEventListener("keydown", (e) => {
        const way = { ArrowRight: 1, ArrowLeft: -1 }[e.key], all = Array.from(document.querySelectorAll("nav a"));
        if (!way) return;
        const next = all[(all.indexOf(a) + way + all.length) % all.length];
        go(next.dataset.view, {});
        next.focus();
      });
    });
    $("knobs").addEventListener("submit", (e) => e.preventDefault());
    $("reset").addEventListener("click", () => {
      for (const name of Object.keys(settings.knobs)) values[name] = settings.knobs[name].default;
      go(view, {});
    });
    $("preset").addEventListener("change", () => {
      const preset = settings.presets[Number($("preset").value)];
      if ($("preset").value === "" || !preset) return;
      for (const name of settings.views[preset.view].knobs) values[name] = settings.knobs[name].default;
      go(preset.view, preset.values);
      $("preset").value = "";
    });
    $("theme").addEventListener("click", () => {
      setTheme(theme === "dark" ? "light" : "dark");
      draw();
    });
    $("png").addEventListener("click", () => save("png"));
    $("svg").addEventListener("click", () => save("svg"));
    $("link").addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(location.href);
        $("link").textContent = "Copied";
      } catch (error) {
        $("link").textContent = "It is in the address bar";
      }
      setTimeout(() => ($("link").textContent = "Copy link"), 1500);
    });
    $("play").addEventListener("click", play);
    $("train").addEventListener("click", () => ask("train", { do: "start" }));
    $("cancel").addEventListener("click", () => ask("train", { do: "cancel" }));
    $("file").addEventListener("change", () => send($("file").files[0]));
    const drop = $("drop");
    ["dragenter", "dragover"].forEach((name) => drop.addEventListener(name, (e) => {
      e.preventDefault();
      drop.classList.add("over");
    }));
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (e) => {
      e.preventDefault();
      drop.classList.remove("over");
      send(e.dataTransfer.files[0]);
    });
    addEventListener("popstate", () => {
      readAddress();
      showAll();
      draw();
    });
  }

  function go(name, changes) {
    if (name !== view) history.pushState(null, "", location.href);
    view = name;
    Object.assign(values, changes);
    showAll();
    writeAddress();
    badge("waiting", "", []);
    $("numbers").tBodies[0].replaceChildren();
    draw();
  }

  function start() {
    // Dash draws its part of the page first; the first question waits for it
    if (!window.dash_clientside || !dash_clientside.set_props || !document.querySelector("#picture .js-plotly-plot")) {
      setTimeout(start, 40);
      return;
    }
    draw(true);
    if (settings.views[view].trains) ask("train", { do: "look" });
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    onehead: {
      told: function (drawn, report, picture, train) {
        const which = dash_clientside.callback_context.triggered.map((t) => t.prop_id);
        if (which.includes("told-draw.data") && drawn) toldDraw(drawn);
        if (which.includes("told-report.data") && report) toldReport(report);
        if (which.includes("told-picture.data") && picture) toldPicture(picture);
        if (which.includes("told-train.data") && train) toldTrain(train);
        return dash_clientside.no_update;
      },
    },
  });

  function begin() {
    settings = JSON.parse($("settings").textContent);
    setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    readAddress();
    listen();
    showAll();
    writeAddress();
    start();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
