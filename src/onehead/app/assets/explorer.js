// The page: a knob turns, the machine gets a new key, the network is asked, the screen shows what the machine may say.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const K = oneheadKnobs, machine = oneheadMachine;
  const quiet = { report: 180, picture: 260 }; // milliseconds of rest before the dearer questions
  let settings, state, file = "", chosen = null, playing = null, polling = null, flying = null, pending = false, timers = [];
  const seen = { asked: 0, drawn: 0, reported: 0, exact: 0, trained: null, machine: () => machine.look(state, Date.now()) };
  window.onehead = seen; // for tests and for the curious

  function key() {
    const found = K.query();
    if (file) found.set("file", file);
    return found.toString();
  }

  function tell(event) {
    state = machine.step(state, event);
    const now = machine.look(state, Date.now());
    oneheadPanel.show(now);
    if (now.shown && now.shown === oneheadDrawing.current) seen.drawn = seen.asked; // asked again, and on the screen already
    if (now.shown && now.shown !== oneheadDrawing.current && now.shown !== tell.sent) {
      tell.sent = now.shown;
      oneheadDrawing.draw(now.shown);
    }
  }

  // ---- questions

  function ask(first) {
    timers.forEach(clearTimeout);
    timers = [];
    seen.asked += 1;
    const mine = key();
    tell({ kind: "move", key: mine, now: Date.now() });
    if (!settings.recorded) $("csv").href = "data.csv?" + mine;
    sketch(first);
  }

  async function sketch(first) {
    if (flying) {
      pending = true; // one sketch at a time: the newest question is asked when the answer is there
      return;
    }
    const mine = state.key, n = seen.asked;
    flying = mine;
    const answer = await oneheadNetwork.ask("draw", mine, first ? { first: true } : {});
    flying = null;
    if (pending) {
      pending = false;
      sketch();
    }
    if (!answer || mine !== state.key) return;
    take(answer, n);
  }

  function take(answer, n) {
    const wrong = answer.wrong || {}, sentence = answer.refused || Object.values(wrong)[0];
    K.showWrong(wrong);
    if (answer.moved && Object.keys(answer.moved).length && Object.entries(answer.moved).some(([k, v]) => K.text(v) !== K.text(K.values[k]))) {
      K.set(answer.moved, true); // knobs that made room for another: the question is asked again as it stands now
      ask();
      return;
    }
    if (answer.figure) tell({ kind: "answer", part: "sketch", key: answer.key, value: answer });
    if (sentence) tell({ kind: "refuse", key: answer.key, sentence: sentence });
    else if (!playing && !oneheadTour.moving()) later("report", quiet.report);
    seen.drawn = answer.figure ? seen.drawn : n; // a picture counts when it is on the screen
  }

  function later(kind, wait) {
    timers.push(setTimeout(() => solve(kind), wait));
  }

  async function solve(kind) {
    const mine = state.key, n = seen.asked;
    if (kind === "report") tell({ kind: "rest", key: mine, now: Date.now() });
    const answer = await oneheadNetwork.ask(kind, mine);
    if (!answer || answer.stopped || mine !== state.key) return;
    if (answer.refused) {
      tell({ kind: "refuse", key: mine, sentence: answer.refused });
      return;
    }
    // where there is not even a sketch, the sentence stands in its place
    if (answer.instead && state.sketch && state.sketch.empty) Object.assign(answer, answer.instead);
    tell({ kind: "answer", part: kind, key: answer.key, value: answer });
    if (kind === "report") {
      seen.reported = n;
      later("picture", settings.recorded ? 0 : quiet.picture);
    } else seen.exact = n;
  }

  function heard(alive) {
    if (!state || alive === state.alive) return;
    tell({ kind: alive ? "alive" : "silent" });
    if (!alive) return;
    if (!state.sketch) sketch(); // what was lost is asked again
    else if (!state.report || !state.picture) solve(state.report ? "picture" : "report");
  }

  // ---- what belongs to a view

  function lead() {
    const own = settings.views[K.view], [about, formula] = own.heads[K.values.attention] || [own.about, own.formula];
    $("title").textContent = own.title;
    document.title = own.title + " · onehead explorer";
    $("about").textContent = about;
    $("formula").setAttribute("aria-label", "Formula: " + formula);
    katex.render(formula, $("formula"), { throwOnError: false, displayMode: false });
    const named = own.knobs.filter((name) => settings.knobs[name].symbol && !settings.knobs[name].rare && !name.startsWith("train")
      && (!settings.recorded || settings.recorded.grid.includes(K.view) && settings.knobs[name].stops));
    $("symbols").replaceChildren(...named.map(chip));
    document.querySelectorAll("nav a").forEach((a) => {
      const mine = a.dataset.view === K.view;
      a.setAttribute("aria-selected", mine);
      a.tabIndex = mine ? 0 : -1;
      if (mine) a.parentElement.scrollLeft = a.offsetLeft - a.parentElement.offsetLeft - (a.parentElement.clientWidth - a.offsetWidth) / 2;
    });
    $("picture-area").setAttribute("aria-labelledby", "tab-" + K.view);
    measure();
    $("play").hidden = !own.plays;
    $("train").hidden = !own.trains || Boolean(settings.recorded);
    $("training-says").hidden = $("train").hidden;
  }

  // how much room the picture has
  function measure() {
    const height = document.querySelector(".lead").offsetHeight + ($("drop").hidden ? 0 : $("drop").offsetHeight);
    document.documentElement.style.setProperty("--lead", height + 12 + "px");
  }

  function chip(name) {
    const knob = settings.knobs[name], button = document.createElement("button");
    button.type = "button";
    button.className = "chip";
    button.append(Object.assign(document.createElement("i"), { textContent: knob.symbol }), " " + knob.label.toLowerCase());
    const box = $("knob-" + name).closest(".knob");
    button.addEventListener("click", () => {
      box.scrollIntoView({ block: "center" });
      ($("slide-" + name) || $("knob-" + name)).focus();
    });
    ["pointerenter", "focus"].forEach((e) => button.addEventListener(e, () => box.classList.add("named")));
    ["pointerleave", "blur"].forEach((e) => button.addEventListener(e, () => box.classList.remove("named")));
    return button;
  }

  function changed(moved) {
    if (moved) stopPlaying();
    if (moved || K.values.attention !== changed.attention) lead();
    changed.attention = K.values.attention;
    if (K.view === "checkpoint" && chosen && K.text(K.values.heads) !== changed.heads) send(chosen);
    ask();
  }

  // the marked line was dragged, or a curve clicked
  function marked(by, x) {
    const names = by.split(" ");
    if (settings.recorded && !settings.knobs[by.split(" ")[0]].stops) return;
    if (names.length === 1) {
      K.set({ [by]: K.nearest(by, x) });
      return;
    }
    const total = names.reduce((sum, name) => sum + Number(K.values[name]), 0);
    K.set(Object.fromEntries(names.map((name) => [name, Number(((Number(K.values[name]) / total) * x).toPrecision(4))])));
  }

  // ---- training: one job for the whole program, in sight in every view

  async function train(wish) {
    const answer = await oneheadNetwork.ask("train", key(), { do: wish });
    if (!answer) return;
    const running = answer.running, before = seen.trained;
    seen.trained = answer;
    $("train").disabled = running;
    $("job").hidden = !running;
    $("trained").max = answer.total || 1;
    $("trained").value = answer.done;
    $("job-says").textContent = "Training: " + answer.done + " of " + answer.total + " runs. They appear on the learning curve.";
    $("training-says").textContent = running ? "" : answer.sentence || "";
    if (before && (answer.done !== before.done || running !== before.running)) solve(seen.exact === seen.asked ? "picture" : "report");
    clearTimeout(polling);
    if (running) polling = setTimeout(() => train("look"), 700);
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
      ask();
      return;
    }
    const name = settings.views[K.view].plays, k = settings.knobs[name], stride = k.stops ? 1 : 2;
    let at = K.position(name);
    if (at >= k.steps - 1) at = 0;
    $("play").textContent = "❚❚ Pause";
    $("play").setAttribute("aria-pressed", "true");
    const stepOn = () => {
      if (seen.drawn === seen.asked) {
        at += stride;
        if (at > k.steps) {
          stopPlaying();
          ask();
          return;
        }
        K.set({ [name]: K.fromPosition(name, at) });
      }
      playing = setTimeout(stepOn, k.stops ? 160 : 70);
    };
    playing = setTimeout(stepOn, 0);
  }

  // ---- files

  function opened(answer, name) {
    if (!answer.file) {
      $("file-says").textContent = answer.sentence || "The file could not be read.";
      return;
    }
    file = answer.file;
    $("file-says").textContent = name + ": " + answer.heads + " heads in " + answer.layers + " layers.";
    settings.knobs.layer.high = Math.max(1, answer.layers - 1);
    settings.knobs.head.high = Math.max(1, Math.ceil(answer.heads / answer.layers) - 1);
    for (const knob of ["layer", "head"]) {
      settings.knobs[knob].steps = settings.knobs[knob].high;
      $("slide-" + knob).max = settings.knobs[knob].high;
      K.showKnob(knob);
    }
    ask();
  }

  function send(given) {
    if (!given) return;
    chosen = given;
    changed.heads = K.text(K.values.heads);
    const says = $("file-says"), bar = $("sent"), request = new XMLHttpRequest();
    says.textContent = "Sending " + given.name + " …";
    bar.hidden = false;
    request.open("POST", "checkpoint?" + new URLSearchParams({ name: given.name, heads: K.text(K.values.heads) }));
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (e) => {
      bar.value = e.loaded / e.total;
      if (e.loaded === e.total) says.textContent = "Reading " + given.name + " …";
    };
    request.onerror = () => {
      bar.hidden = true;
      says.textContent = "The file could not be sent; it may be larger than 1 GB.";
    };
    request.onload = () => {
      bar.hidden = true;
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch (error) { /* said by opened */ }
      opened(answer, given.name);
    };
    request.send(given);
  }

  async function sample() {
    $("file-says").textContent = "Training a few small heads …";
    chosen = null;
    const answer = await oneheadNetwork.ask("sample", key());
    if (answer) opened(answer, answer.name);
  }

  // ---- start

  function setTheme(name) {
    document.documentElement.dataset.theme = name;
    $("theme").textContent = name === "dark" ? "Light" : "Dark";
    $("theme").setAttribute("aria-pressed", name === "dark");
    oneheadDrawing.setTheme(name);
    return name;
  }

  function setProjector(on) {
    document.body.classList.toggle("projector", on);
    $("projector").setAttribute("aria-pressed", on);
    measure();
    oneheadDrawing.redraw();
  }

  async function copy() {
    const base = settings.base ? settings.base.replace(/[?#].*$/, "") : location.href.replace(/[?#].*$/, "");
    try {
      await navigator.clipboard.writeText(base + "?" + K.query());
      $("link").textContent = "Copied";
    } catch (error) {
      $("link").textContent = "It is in the address bar";
    }
    setTimeout(() => ($("link").textContent = "Copy link"), 1500);
  }

  function listen() {
    document.querySelectorAll("nav a").forEach((a) => {
      a.addEventListener("click", (e) => {
        e.preventDefault();
        K.go(a.dataset.view, {});
      });
      a.addEventListener("keydown", (e) => {
        const way = { ArrowRight: 1, ArrowLeft: -1 }[e.key], all = Array.from(document.querySelectorAll("nav a"));
        if (!way) return;
        const next = all[(all.indexOf(a) + way + all.length) % all.length];
        K.go(next.dataset.view, {});
        next.focus();
      });
    });
    $("theme").addEventListener("click", () => K.remember("theme", setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark")));
    $("projector").addEventListener("click", () => {
      const on = !document.body.classList.contains("projector");
      setProjector(on);
      K.remember("projector", on ? "1" : "0");
    });
    $("png").addEventListener("click", () => oneheadDrawing.save("png"));
    $("svg").addEventListener("click", () => oneheadDrawing.save("svg"));
    $("link").addEventListener("click", copy);
    if (settings.recorded) $("csv").addEventListener("click", () => {
      $("csv").href = URL.createObjectURL(new Blob([oneheadDrawing.table()], { type: "text/csv" }));
      $("csv").download = "onehead-" + K.view + ".csv";
    });
    $("play").addEventListener("click", play);
    $("train").addEventListener("click", () => train("start"));
    $("cancel").addEventListener("click", () => train("cancel"));
    $("file").addEventListener("change", () => send($("file").files[0]));
    $("sample").addEventListener("click", sample);
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
    document.addEventListener("onehead-drawn", (e) => {
      if (e.detail.key === state.key) seen.drawn = seen.asked;
    });
    setInterval(() => tell({ kind: "look" }), 500); // the seconds of solving
  }

  function begin() {
    settings = JSON.parse($("settings").textContent);
    window.oneheadNote = settings.recorded ? settings.recorded.note : "";
    oneheadDrawing.begin(settings, marked);
    setTheme(K.remember("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
    setProjector(K.remember("projector") === "1");
    K.begin(settings, changed);
    state = machine.fresh(key(), Date.now());
    oneheadNetwork.begin(settings, heard);
    oneheadTour.begin(settings);
    changed.attention = K.values.attention;
    lead();
    listen();
    ask(true);
    if (!settings.recorded) train("look");
    // the first answer may be here before the code that draws it
    addEventListener("load", () => tell.sent && oneheadDrawing.draw(tell.sent));
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
