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
  async function recorded(kind, key) {
    if (!answers) answers = oneheadUnpack("recorded");
    const table = await answers, query = new URLSearchParams(key);
    const name = oneheadKnobs.recordName(query.get("view"), (knob) => query.get(knob)), found = table[kind] && table[kind][name];
    if (!found && oneheadDrafts.supports(query.get("view"), oneheadKnobs.values)) return drafted(kind, key, table);
    if (!found) return { key: key, refused: "This setting is not part of the recording; start onehead app to compute it." };
    const answer = Object.assign({}, table.figures[found.drawing] || {}, found, { key: key });
    // while α plays no report is asked for: the numbers come with the picture
    if (kind === "draw" && table.report && table.report[name]) answer.numbers = table.report[name].numbers;
    if (found.at) answer.figure = withMarkedPoint(answer.figure, found.at);
    return answer;
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
    return { data: figure.data, layout: Object.assign({}, figure.layout, { shapes: shapes, meta: meta }) };
  }

  // the answer to a question, or null if the server does not answer
  async function ask(kind, key, more, signal) {
    if (settings.recorded) return recorded(kind, key);
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

  window.oneheadNetwork = { begin: begin, ask: ask };
})();
