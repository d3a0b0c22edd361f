// Questions to the server, or to the recorded answers in the page; and whether the server is connected.
(function () {
  "use strict";
  const HEARTBEAT = 1000, TIMEOUT = 1800; // milliseconds: a lost connection is noticed within their sum
  const page = Array.from(crypto.getRandomValues(new Uint8Array(9)), (b) => b.toString(36)).join("");
  let settings, onConnection = () => {}, answers = null;

  async function post(kind, key, more, signal) {
    const body = JSON.stringify(Object.assign({ key: key, page: page }, more || {}));
    const response = await fetch("ask/" + kind, { method: "POST", headers: { "Content-Type": "application/json" }, body: body, signal: signal });
    const answer = await response.json();
    onConnection(true);
    if (!response.ok) return { key: key, refused: answer.sentence || "The server refused the question of its own page." };
    return answer;
  }

  // recorded answers are stored, compressed, in the page itself
  async function recorded(kind, key, more) {
    if (!answers) answers = oneheadUnpack("recorded");
    const table = await answers;
    if (kind === "train") return trainingJob(key, more.do, storedRuns(table, key));
    const answer = await recordedAnswer(kind, key, table), runs = storedRuns(table, key);
    if (answer.figure && !answer.refusal && landed(key, runs)) answer.figure = withRuns(answer.figure, runs, landed(key, runs));
    return answer;
  }

  async function recordedAnswer(kind, key, table) {
    const query = new URLSearchParams(key), name = oneheadKnobs.recordName(query.get("view"), (knob) => query.get(knob));
    const own = table[kind === "picture" ? "draw" : kind], found = own && own[name]; // a recorded draft is the exact picture
    if (!found && oneheadDrafts.supports(query.get("view"), oneheadKnobs.values)) return drafted(kind, key, table);
    if (!found) return { key: key, refused: "This setting is not part of the recording; start onehead app to compute it." };
    const answer = Object.assign({}, table.figures[found.drawing] || {}, found, { key: key });
    // while α plays no report is asked for: the numbers come with the picture
    if (kind === "draw" && table.report && table.report[name]) answer.numbers = table.report[name].numbers;
    if (found.at) answer.figure = withMarkedPoint(answer.figure, found.at);
    return answer;
  }

  // ---- recorded training runs, which land on the picture one point after the other

  const LANDING = 500; // milliseconds between two points
  let race = { name: "", since: 0 };

  const problemName = (key) => {
    const query = new URLSearchParams(key);
    return oneheadKnobs.recordName(query.get("view"), (knob) => query.get(knob), "alpha");
  };
  const storedRuns = (table, key) => (table.trained || {})[problemName(key)] || null;

  // number of points that have landed
  function landed(key, runs) {
    if (!runs || race.name !== problemName(key)) return 0;
    const count = runs.traces[0].x.length, still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    return still ? count : Math.min(count, Math.floor((Date.now() - race.since) / LANDING));
  }

  function withRuns(figure, runs, count) {
    const first = (trace) => Object.assign({}, trace, {
      x: trace.x.slice(0, count), y: trace.y.slice(0, count), error_y: Object.assign({}, trace.error_y, { array: trace.error_y.array.slice(0, count) }),
    });
    return { data: figure.data.concat(runs.traces.map(first)), layout: figure.layout };
  }

  // the answer of a server whose runs are those that were stored
  function trainingJob(key, command, runs) {
    if (!runs) return { key: key, running: false, done: 0, total: 0, sentence: "No training runs are stored for this setting; onehead app trains them." };
    if (command === "start") race = { name: problemName(key), since: Date.now() };
    if (command === "cancel") race = { name: "", since: 0 };
    const points = runs.traces[0].x.length, count = landed(key, runs), total = points * runs.seeds;
    const running = race.name === problemName(key) && count < points;
    const sentence = count === points ? total + " runs, trained when this page was recorded: they took " + runs.seconds + " s." : "";
    return { key: key, running: running, done: count * runs.seeds, total: total, sentence: sentence, stored: true, seconds: runs.seconds };
  }

  // whether the page has training runs for a question
  async function hasRuns(key) {
    if (!answers) answers = oneheadUnpack("recorded");
    return storedRuns(await answers, key) !== null;
  }

  // a draft of the page itself; an error in it is said, and does not end the page
  async function drafted(kind, key, table) {
    try {
      return await oneheadDrafts.answer(kind, key, table);
    } catch (error) {
      return { key: key, refused: "This page could not compute these values (" + error.message + "); onehead app solves them." };
    }
  }

  // the recorded figure with its marked line at another value
  function withMarkedPoint(figure, at) {
    const shapes = figure.layout.shapes.slice(), last = shapes.length - 1;
    shapes[last] = Object.assign({}, shapes[last], { x0: at, x1: at });
    const meta = Object.assign({}, figure.layout.meta, { at: at });
    return { data: figure.data.map((trace) => (trace.meta && trace.meta.follows ? pointsAt(figure, trace, at) : trace)), layout: Object.assign({}, figure.layout, { shapes: shapes, meta: meta }) };
  }

  // points where the curves that a trace follows pass x = at, between their points on logarithmic axes; a gap begins a new curve
  function pointsAt(figure, trace, at) {
    const y = [];
    for (const own of figure.data.filter((other) => trace.meta.follows.includes(other.name)))
      for (let i = 1; i < own.x.length; i++) {
        const [a, b] = [own.x[i - 1], own.x[i]];
        if (a === null || b === null || !(a <= at && at < b)) continue;
        const share = Math.log(at / a) / Math.log(b / a);
        y.push(Math.exp((1 - share) * Math.log(own.y[i - 1]) + share * Math.log(own.y[i])));
      }
    return Object.assign({}, trace, { x: y.map(() => at), y: y });
  }

  // the answer to a question, or null if the server does not answer
  async function ask(kind, key, more, signal) {
    if (settings.recorded) return recorded(kind, key, more);
    try {
      return await post(kind, key, more, signal);
    } catch (error) {
      if (!signal || !signal.aborted) onConnection(false);
      return null;
    }
  }

  async function checkConnection() {
    const controller = new AbortController(), timer = setTimeout(() => controller.abort(), TIMEOUT);
    try {
      const response = await fetch("alive", { signal: controller.signal, cache: "no-store" });
      onConnection(response.ok);
    } catch (error) {
      onConnection(false);
    }
    clearTimeout(timer);
    setTimeout(checkConnection, HEARTBEAT);
  }

  function begin(pageSettings, connectionCallback) {
    settings = pageSettings;
    onConnection = connectionCallback;
    if (!settings.recorded) setTimeout(checkConnection, HEARTBEAT);
  }

  window.oneheadNetwork = { begin: begin, ask: ask, hasRuns: hasRuns };
})();
