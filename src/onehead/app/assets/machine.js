// What the page knows, and what it may therefore say. No browser in here: states and events in, words out.
//
// A key is a question: the view and its knobs. Every answer carries the key it answers, and an answer to another key than the
// present one is dropped, so that picture, numbers and badge on the screen are answers to the question on the knobs, or none.
(function (root) {
  "use strict";
  const PARTS = ["sketch", "report", "picture"];

  function fresh(key, now) {
    return { key: key, since: now, alive: true, rested: null, refusal: null, sketch: null, report: null, picture: null };
  }

  // events: move (another question), rest (the dear answers are being solved), answer (part, key), refuse (key), alive, silent
  function step(state, event) {
    switch (event.kind) {
      case "move":
        return event.key === state.key ? state : Object.assign(fresh(event.key, event.now), { alive: state.alive });
      case "rest":
        return event.key === state.key ? Object.assign({}, state, { rested: event.now }) : state;
      case "answer": {
        const heard = Object.assign({}, state, { alive: true });
        if (event.key !== state.key || !PARTS.includes(event.part)) return heard;
        heard[event.part] = Object.assign({ key: event.key }, event.value);
        return heard;
      }
      case "refuse": {
        const heard = Object.assign({}, state, { alive: true });
        if (event.key === state.key) heard.refusal = { key: event.key, sentence: event.sentence };
        return heard;
      }
      case "alive":
        return state.alive ? state : Object.assign({}, state, { alive: true });
      case "silent":
        return state.alive ? Object.assign({}, state, { alive: false }) : state;
      default:
        return state;
    }
  }

  // What may be shown: one word for the picture, the picture itself (null: the one on the screen is of another question), badge,
  // numbers. All of them are parts of the state and answer its key.
  function look(state, now) {
    const exact = state.picture && state.picture.figure ? state.picture : null;
    const shown = exact || state.sketch;
    const refusal = state.refusal ? state.refusal.sentence : shown && shown.refusal;
    const word = !state.alive ? "no connection"
      : refusal ? "refused"
      : exact || (shown && shown.exact) ? "exact"
      : !shown ? "drawing"
      : shown.empty && !state.picture ? "no sketch"
      : state.picture ? "sketch only"
      : state.rested !== null ? "solving"
      : "sketch";
    const seconds = state.rested !== null && (word === "solving" || word === "no sketch") ? Math.floor((now - state.rested) / 1000) : 0;
    const numbers = state.report ? state.report.numbers.slice() : null;
    if (numbers && exact && exact.numbers)
      for (const line of exact.numbers) {
        const at = numbers.findIndex((old) => old[0] === line[0]);
        if (at >= 0) numbers[at] = line;
        else numbers.push(line);
      }
    return {
      key: state.key, word: word, seconds: seconds, shown: shown, stale: !shown, refusal: refusal || "",
      badge: state.alive && state.report ? state.report.badge : null, numbers: numbers,
      sentence: state.picture && state.picture.sentence ? state.picture.sentence : "",
    };
  }

  root.oneheadMachine = { fresh: fresh, step: step, look: look };
})(typeof window === "undefined" ? globalThis : window);
