// The page: a changed knob makes a new question, the network is asked, answers go to the state machine, its values to the screen.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const K = oneheadKnobs, machine = oneheadMachine;
  const DELAYS = { report: 180, picture: 260 }; // milliseconds without a change before the expensive questions are asked
  const DRAFT_PATIENCE = 1000; // milliseconds after which another draft is asked for beside one that is under way
  const PLAY_MILLISECONDS = 15000, LONGEST_STRIDE = 10; // of the whole slider; in positions of the slider
  let settings, state, file = "", upload = null, playing = null, polling = null, draftsUnderWay = 0, draftBegun = null, draftPending = null, timers = [];
  let shownFormula = "", lastDrawn = null, lastAttention = null, lastHeads = null;
  // counters: number of the last question, and of the last one that was drawn, reported and drawn exactly; read by tests
  const progress = { asked: 0, drawn: 0, reported: 0, exact: 0, trained: null, machine: () => machine.present(state, Date.now()) };
  Object.assign(progress, { embedCode: embedCode });
  window.onehead = progress;

  function key() {
    const query = K.query();
    if (file) query.set("file", file);
    return query.toString();
  }

  function dispatch(event) {
    state = machine.step(state, event);
    const now = machine.present(state, Date.now());
    const plays = playing ? settings.views[K.view].plays : "";
    oneheadPanel.show(plays ? Object.assign({ playing: settings.knobs[plays].symbol + " = " + new URLSearchParams(now.key).get(plays) }, now) : now);
    if (now.shown && now.shown === oneheadDrawing.current) progress.drawn = progress.asked; // the picture is on the screen already
    // a refused question has no picture: its sentence takes the place of the one that answered another question
    const shown = now.status === "refused" && !now.shown ? oneheadDrawing.sentence(now.key, now.refusal) : now.shown;
    if (shown && shown !== oneheadDrawing.current && shown !== lastDrawn) {
      lastDrawn = shown;
      oneheadDrawing.draw(shown);
    }
  }

  // ---- questions

  function ask(first) {
    timers.forEach(clearTimeout);
    timers = [];
    progress.asked += 1;
    const asked = key();
    oneheadGuess.moved(asked);
    dispatch({ kind: "move", key: asked, now: Date.now() });
    if (!settings.recorded) $("csv").href = "data.csv?" + asked;
    else offerRuns(asked);
    askDraft(first);
  }

  // one draft at a time: while one is under way, only the newest question is asked after it; or beside it, if it takes long, as where
  // the code of a kind of head is being compiled
  async function askDraft(first) {
    const late = draftBegun !== null && Date.now() - draftBegun >= DRAFT_PATIENCE;
    if (draftsUnderWay >= (late ? 2 : 1)) {
      clearTimeout(draftPending);
      draftPending = setTimeout(() => {
        draftPending = null;
        askDraft();
      }, DRAFT_PATIENCE);
      return;
    }
    const asked = state.key, n = progress.asked;
    draftsUnderWay += 1;
    draftBegun = Date.now();
    const answer = await oneheadNetwork.ask("draw", asked, first ? { first: true } : {});
    draftsUnderWay -= 1;
    if (draftPending !== null) {
      clearTimeout(draftPending);
      draftPending = null;
      askDraft();
    }
    if (!answer || asked !== state.key) return;
    useDraft(answer, n);
  }

  function useDraft(answer, n) {
    const wrong = answer.wrong || {}, sentence = answer.refused || Object.values(wrong)[0];
    K.showWrong(wrong);
    if (Object.entries(answer.adjusted || {}).some(([name, value]) => K.text(value) !== K.text(K.values[name]))) {
      K.set(answer.adjusted, true); // the server has adjusted knobs to fit others: ask again with these values
      ask();
      return;
    }
    if (answer.figure) dispatch({ kind: "answer", part: "draft", key: answer.key, value: answer });
    if (sentence) dispatch({ kind: "refuse", key: answer.key, sentence: sentence });
    else if (!playing && !oneheadTour.moving()) askExactLater("report", DELAYS.report);
    progress.drawn = answer.figure ? progress.drawn : n; // a picture counts when it is on the screen
  }

  function askExactLater(kind, delay) {
    timers.push(setTimeout(() => askExact(kind), delay));
  }

  async function askExact(kind) {
    const asked = state.key, n = progress.asked;
    if (kind === "report") dispatch({ kind: "solve", key: asked, now: Date.now() });
    const answer = await oneheadNetwork.ask(kind, asked);
    if (!answer || answer.superseded || asked !== state.key) return;
    if (answer.refused) {
      dispatch({ kind: "refuse", key: asked, sentence: answer.refused });
      return;
    }
    // without a draft, the reason why there is no exact picture takes its place
    if (answer.instead && state.draft && state.draft.empty) Object.assign(answer, answer.instead);
    dispatch({ kind: "answer", part: kind, key: answer.key, value: answer });
    if (kind === "report") {
      progress.reported = n;
      askExactLater("picture", settings.recorded ? 0 : DELAYS.picture);
    } else progress.exact = n;
  }

  function connectionChanged(connected) {
    if (!state || connected === state.connected) return;
    dispatch({ kind: connected ? "connected" : "disconnected" });
    if (!connected) return;
    if (!state.draft) askDraft(); // ask again what was lost
    else if (!state.report || !state.picture) askExact(state.report ? "picture" : "report");
  }

  // ---- what belongs to a view

  function showView() {
    const own = settings.views[K.view], attention = K.values.attention;
    const [about, formula] = Object.hasOwn(own.heads, attention) ? own.heads[attention] : [own.about, own.formula];
    $("title").textContent = own.title;
    document.title = own.title + " · onehead explorer";
    $("about").textContent = about;
    $("formula").setAttribute("aria-label", "Formula: " + formula.replace(/\\role\{\w+\}/g, ""));
    showFormula(formula);
    const named = own.knobs.filter((name) => settings.knobs[name].symbol && !settings.knobs[name].panels.length && !settings.knobs[name].rare && !name.startsWith("train")
      && (!settings.recorded || K.ownStops(name) || settings.recorded.solver.includes(K.view) && settings.recorded.solverKnobs.includes(name)));
    $("symbols").replaceChildren(...named.map(symbolButton));
    document.querySelectorAll("nav a").forEach((a) => {
      const selected = a.dataset.view === K.view;
      a.setAttribute("aria-selected", selected);
      a.tabIndex = selected ? 0 : -1;
      if (selected) a.parentElement.scrollLeft = a.offsetLeft - a.parentElement.offsetLeft - (a.parentElement.clientWidth - a.offsetWidth) / 2;
    });
    $("picture-area").setAttribute("aria-labelledby", "tab-" + K.view);
    if (!playing && own.plays) $("play").textContent = "▶ Play " + settings.knobs[own.plays].symbol;
    $("play").hidden = !own.plays || matchMedia("(prefers-reduced-motion: reduce)").matches;
    $("train").hidden = !own.trains || Boolean(settings.recorded);
    $("training-message").hidden = !own.trains;
  }

  // the formula with each symbol in the colour of its meaning, as on the knobs and in the picture
  function showFormula(formula) {
    shownFormula = formula;
    const colours = settings.colours[document.documentElement.dataset.theme] || settings.colours.light;
    formula = formula.replace(/\\role\{(\w+)\}/g, (all, role) => "\\textcolor{" + colours["@" + role] + "}");
    katex.render(formula, $("formula"), { throwOnError: false, displayMode: false });
  }

  // the height of the text above the picture, from which the style sheet computes the height of the picture
  function measureLead() {
    const height = [document.querySelector(".lead"), $("drop"), $("play-row")].reduce((sum, e) => sum + e.offsetHeight, 0); // hidden ones have none
    document.documentElement.style.setProperty("--lead", height + 12 + "px");
  }

  function symbolButton(name) {
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

  function knobsChanged(viewChanged) {
    if (viewChanged) stopPlaying();
    if (viewChanged || K.values.attention !== lastAttention) showView();
    lastAttention = K.values.attention;
    if (K.view === "checkpoint" && upload && K.text(K.values.heads) !== lastHeads) sendFile(upload);
    ask();
  }

  // the marked line was dragged, or a curve clicked
  function moveMarkedPoint(by, x) {
    const names = by.split(" ");
    if (settings.recorded && !settings.recorded.solver.includes(K.view) && !K.ownStops(by)) return;
    if (names.length === 1) {
      K.set({ [by]: x });
      return;
    }
    const total = names.reduce((sum, name) => sum + Number(K.values[name]), 0);
    K.set(Object.fromEntries(names.map((name) => [name, Number(((Number(K.values[name]) / total) * x).toPrecision(4))])));
  }

  // ---- training: one job for the whole server, shown in every view

  // without a server the button is there where runs are stored
  async function offerRuns(asked) {
    const stored = settings.views[K.view].trains && await oneheadNetwork.hasRuns(asked);
    if (asked !== state.key) return;
    $("train").hidden = !stored;
    $("train").textContent = "Race: trained heads";
    if (!stored || !progress.trained || !progress.trained.running) $("training-message").textContent = "";
  }

  // a race: first the prediction, then the runs as they finish
  async function startRace() {
    $("train").disabled = true;
    while (progress.exact !== progress.asked && machine.present(state, Date.now()).status !== "refused") await new Promise((resolve) => setTimeout(resolve, 60));
    train("start");
  }

  function raceText(answer) {
    const theory = state.picture && state.picture.seconds && settings.views[K.view].trains ? "Theory: " + state.picture.seconds + " s of computing. " : "";
    const training = answer.stored ? "Training: " + answer.done + " of " + answer.total + " stored runs, which took " + answer.seconds + " s"
      : "Training: " + answer.done + " of " + answer.total + " runs in " + answer.seconds + " s";
    return theory + training + ". They appear on the learning curve.";
  }

  async function train(command) {
    const answer = await oneheadNetwork.ask("train", key(), { do: command });
    if (!answer) return;
    const running = answer.running, before = progress.trained;
    progress.trained = answer;
    $("train").disabled = running;
    $("job").hidden = !running;
    $("trained").max = answer.total || 1;
    $("trained").value = answer.done;
    $("job-message").textContent = raceText(answer);
    const other = command === "status" && !before; // a job that ended before this page was opened, perhaps of another head
    $("training-message").textContent = running || (other && !answer.stored) ? "" : answer.sentence || "";
    const was = before || (answer.stored ? { done: 0, running: running } : answer);
    if (answer.done !== was.done || running !== was.running) askExact(progress.exact === progress.asked ? "picture" : "report");
    clearTimeout(polling);
    if (running) polling = setTimeout(() => train("status"), 700);
  }

  // ---- play

  function stopPlaying() {
    if (!playing) return;
    clearTimeout(playing);
    playing = null;
    const plays = settings.views[K.view].plays;
    if (plays) $("play").textContent = "▶ Play " + settings.knobs[plays].symbol;
    $("play").setAttribute("aria-pressed", "false");
  }

  function play() {
    if (playing) {
      stopPlaying();
      ask();
      return;
    }
    const name = settings.views[K.view].plays, k = settings.knobs[name];
    let at = K.position(name), last = performance.now();
    if (at >= k.steps - 1) at = 0;
    $("play").textContent = "❚❚ Pause";
    $("play").setAttribute("aria-pressed", "true");
    const advance = () => {
      if (progress.drawn === progress.asked) {
        // a slow machine makes longer steps, so that the whole slider takes about the same time everywhere
        const now = performance.now(), stride = (k.steps * (now - last)) / PLAY_MILLISECONDS;
        at += Math.round(Math.min(LONGEST_STRIDE, Math.max(2, stride)));
        last = now;
        if (at > k.steps) {
          stopPlaying();
          ask();
          return;
        }
        K.set({ [name]: K.fromPosition(name, at) });
      }
      playing = setTimeout(advance, 70);
    };
    playing = setTimeout(advance, 0);
  }

  // a page without an address shows α growing once; whatever the reader touches stops it
  function startByItself() {
    K.set({ kappa0: 0.2, weight_decay: 0.3, alpha: 0.02 }); // features emerge one after another
    $("story").hidden = false; // its place is kept free, so that the picture does not move
    const wait = () => {
      if (touched) return;
      if (progress.drawn === progress.asked && oneheadDrawing.current) play();
      else setTimeout(wait, 100);
    };
    let touched = false;
    ["pointerdown", "keydown", "wheel"].forEach((name) => addEventListener(name, (e) => {
      if (touched) return;
      touched = true;
      if (playing && !(e.target.closest && e.target.closest("#play"))) stopPlaying();
    }, { capture: true }));
    wait();
  }

  // ---- files

  function showFile(answer, name) {
    if (!answer.file) {
      $("file-message").textContent = answer.sentence || "The file could not be read.";
      return;
    }
    file = answer.file;
    $("file-message").textContent = name + ": " + answer.heads + " heads in " + answer.layers + " layers.";
    settings.knobs.layer.high = Math.max(1, answer.layers - 1);
    settings.knobs.head.high = Math.max(1, Math.ceil(answer.heads / answer.layers) - 1);
    for (const knob of ["layer", "head"]) {
      settings.knobs[knob].steps = settings.knobs[knob].high;
      $("slide-" + knob).max = settings.knobs[knob].high;
      K.showKnob(knob);
    }
    ask();
  }

  function sendFile(chosen) {
    if (!chosen) return;
    upload = chosen;
    lastHeads = K.text(K.values.heads);
    const message = $("file-message"), bar = $("sent"), request = new XMLHttpRequest();
    message.textContent = "Sending " + chosen.name + " …";
    bar.hidden = false;
    request.open("POST", "checkpoint?" + new URLSearchParams({ name: chosen.name, heads: K.text(K.values.heads) }));
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (e) => {
      bar.value = e.loaded / e.total;
      if (e.loaded === e.total) message.textContent = "Reading " + chosen.name + " …";
    };
    request.onerror = () => {
      bar.hidden = true;
      message.textContent = "The file could not be sent; it may be larger than 1 GB.";
    };
    request.onload = () => {
      bar.hidden = true;
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch (error) { /* showFile reports an answer without a file */ }
      showFile(answer, chosen.name);
    };
    request.send(chosen);
  }

  async function openSample() {
    $("file-message").textContent = "Training a few small heads …";
    upload = null;
    const answer = await oneheadNetwork.ask("sample", key());
    if (answer) showFile(answer, answer.name);
  }

  // ---- start

  function setTheme(name) {
    document.documentElement.dataset.theme = name;
    $("theme").textContent = name === "dark" ? "Light" : "Dark";
    $("theme").setAttribute("aria-pressed", name === "dark");
    oneheadDrawing.setTheme(name);
    for (const [role, colour] of Object.entries(settings.colours[name])) document.documentElement.style.setProperty("--" + role.slice(1) + "-role", colour);
    if (shownFormula) showFormula(shownFormula);
    return name;
  }

  function setProjector(on) {
    document.body.classList.toggle("projector", on);
    $("projector").setAttribute("aria-pressed", on);
    oneheadDrawing.redraw();
  }

  function pageAddress() {
    return (settings.base ? settings.base : location.href).replace(/[?#].*$/, "");
  }

  // HTML that shows the picture alone, without knobs and numbers
  function embedCode() {
    const query = K.query();
    query.set("embed", "1");
    if (oneheadGuess.active()) query.set("guess", "1");
    const address = (pageAddress() + "?" + query).replace(/&/g, "&amp;").replace(/"/g, "&quot;");
    return '<iframe src="' + address + '" width="720" height="480" style="border:0" title="onehead: ' + settings.views[K.view].title + '"></iframe>';
  }

  async function copy(button, text, otherwise) {
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch (error) {
      button.textContent = otherwise;
    }
    setTimeout(() => (button.textContent = before), 1500);
  }

  function listen() {
    document.querySelectorAll("nav a").forEach((a) => {
      a.addEventListener("click", (e) => {
        e.preventDefault();
        K.go(a.dataset.view, {});
      });
      a.addEventListener("keydown", (e) => {
        const direction = { ArrowRight: 1, ArrowLeft: -1 }[e.key], all = Array.from(document.querySelectorAll("nav a"));
        if (!direction) return;
        const next = all[(all.indexOf(a) + direction + all.length) % all.length];
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
    $("pin").addEventListener("click", oneheadDrawing.pin);
    $("unpin").addEventListener("click", oneheadDrawing.unpin);
    $("reset").addEventListener("click", () => ($("training-message").textContent = ""));
    $("png").addEventListener("click", () => oneheadDrawing.save("png"));
    $("svg").addEventListener("click", () => oneheadDrawing.save("svg"));
    $("link").addEventListener("click", () => copy($("link"), pageAddress() + "?" + K.query() + (oneheadGuess.active() ? "&guess=1" : ""), "Copy it from the address bar"));
    $("embed").hidden = !settings.recorded && !settings.base; // the server of one's own machine forbids to be shown in other pages
    $("embed").addEventListener("click", () => copy($("embed"), embedCode(), "The browser forbids copying"));
    if (settings.recorded) $("csv").addEventListener("click", () => {
      $("csv").href = URL.createObjectURL(new Blob([oneheadDrawing.table()], { type: "text/csv" }));
      $("csv").download = "onehead-" + K.view + ".csv";
    });
    $("play").addEventListener("click", play);
    $("train").addEventListener("click", startRace);
    $("cancel").addEventListener("click", () => train("cancel"));
    $("file").addEventListener("change", () => sendFile($("file").files[0]));
    $("sample").addEventListener("click", openSample);
    const drop = $("drop");
    ["dragenter", "dragover"].forEach((name) => drop.addEventListener(name, (e) => {
      e.preventDefault();
      drop.classList.add("over");
    }));
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (e) => {
      e.preventDefault();
      drop.classList.remove("over");
      sendFile(e.dataTransfer.files[0]);
    });
    document.addEventListener("onehead-drawn", (e) => {
      oneheadStory.tell(K.view === "head" && (playing || !$("story").hidden) ? oneheadDrawing.current.figure : null);
      if (e.detail.key === state.key) progress.drawn = progress.asked;
    });
    for (const above of [document.querySelector(".lead"), $("drop"), $("play-row")]) new ResizeObserver(measureLead).observe(above);
    setInterval(() => dispatch({ kind: "tick" }), 500); // update the seconds of solving
  }

  function begin() {
    settings = JSON.parse($("settings").textContent);
    window.oneheadNote = settings.recorded ? settings.recorded.note : "";
    oneheadDrawing.begin(settings, moveMarkedPoint);
    setTheme(K.remember("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
    setProjector(K.remember("projector") === "1");
    K.begin(settings, knobsChanged);
    state = machine.initial(key(), Date.now());
    oneheadNetwork.begin(settings, connectionChanged);
    oneheadTour.begin(settings);
    oneheadGuess.begin(settings);
    lastAttention = K.values.attention;
    showView();
    listen();
    ask(true);
    if (K.first && K.view === "head" && !$("play").hidden) startByItself();
    if (!settings.recorded) train("status");
    // the first answer may arrive before plotly is loaded
    addEventListener("load", () => lastDrawn && oneheadDrawing.draw(lastDrawn));
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
