// Questions to the server, or to what was recorded from it; whether anybody answers.
(function () {
  "use strict";
  const BEAT = 1000, SILENCE = 1800; // milliseconds: a dead server is seen within their sum
  const page = Array.from(crypto.getRandomValues(new Uint8Array(9)), (b) => b.toString(36)).join("");
  let settings, heard = () => {}, answers = null;

  async function post(kind, key, more, signal) {
    const body = JSON.stringify(Object.assign({ key: key, page: page }, more || {}));
    const answer = await fetch("ask/" + kind, { method: "POST", headers: { "Content-Type": "application/json" }, body: body, signal: signal });
    const told = await answer.json();
    heard(true);
    if (!answer.ok) return { key: key, refused: told.sentence || "the explorer did not understand its own page." };
    return told;
  }

  // what was recorded is kept compressed in the page itself
  async function recorded(kind, key) {
    if (!answers) answers = oneheadUnpack("recorded");
    const table = await answers, asked = new URLSearchParams(key);
    const found = table[kind] && table[kind][oneheadKnobs.named(asked.get("view"), (knob) => asked.get(knob))];
    if (!found) return { key: key, refused: "this point was not recorded; start onehead app to solve it." };
    const answer = Object.assign({}, table.figures[found.drawing] || {}, found, { key: key });
    if (found.at) answer.figure = marked(answer.figure, found.at);
    return answer;
  }

  // the recorded curve with its line at another place
  function marked(figure, at) {
    const shapes = figure.layout.shapes.slice(), last = shapes.length - 1;
    shapes[last] = Object.assign({}, shapes[last], { x0: at, x1: at });
    const meta = Object.assign({}, figure.layout.meta, { at: at });
    return { data: figure.data, layout: Object.assign({}, figure.layout, { shapes: shapes, meta: meta }) };
  }

  // the answer to a question, or null if nobody answers
  async function ask(kind, key, more, signal) {
    if (settings.recorded) return recorded(kind, key);
    try {
      return await post(kind, key, more, signal);
    } catch (error) {
      if (!signal || !signal.aborted) heard(false);
      return null;
    }
  }

  async function beat() {
    const stop = new AbortController(), late = setTimeout(() => stop.abort(), SILENCE);
    try {
      const answer = await fetch("alive", { signal: stop.signal, cache: "no-store" });
      heard(answer.ok);
    } catch (error) {
      heard(false);
    }
    clearTimeout(late);
    setTimeout(beat, BEAT);
  }

  function begin(found, whenHeard) {
    settings = found;
    heard = whenHeard;
    if (!settings.recorded) setTimeout(beat, BEAT);
  }

  window.oneheadNetwork = { begin: begin, ask: ask };
})();
