// The state machine of the page: which question is asked, which answers have arrived, and what may therefore be shown.
// It knows nothing of the browser: states and events in, values to show out.
//
// A key is a question: the view and its knobs. Every answer carries the key it answers, and an answer to another key than the
// current one is dropped, so picture, numbers and badge on the screen always answer the question on the knobs, or are not shown.
(function (root) {
  "use strict";
  const PARTS = ["draft", "report", "picture"];

  function initial(key, now) {
    return { key: key, since: now, connected: true, solvingSince: null, refusal: null, draft: null, report: null, picture: null };
  }

  // events: move (another question), solve (the exact answers are being computed), answer (part, key), refuse (key),
  // connected, disconnected
  function step(state, event) {
    switch (event.kind) {
      case "move":
        return event.key === state.key ? state : Object.assign(initial(event.key, event.now), { connected: state.connected });
      case "solve":
        return event.key === state.key ? Object.assign({}, state, { solvingSince: event.now }) : state;
      case "answer": {
        const next = Object.assign({}, state, { connected: true });
        if (event.key !== state.key || !PARTS.includes(event.part)) return next;
        next[event.part] = Object.assign({ key: event.key }, event.value);
        return next;
      }
      case "refuse": {
        const next = Object.assign({}, state, { connected: true });
        if (event.key === state.key) next.refusal = { key: event.key, sentence: event.sentence };
        return next;
      }
      case "connected":
        return state.connected ? state : Object.assign({}, state, { connected: true });
      case "disconnected":
        return state.connected ? Object.assign({}, state, { connected: false }) : state;
      default:
        return state;
    }
  }

  // What may be shown: the status of the picture, the picture itself (null: the one on the screen belongs to another question),
  // badge and numbers. All of them are parts of the state and answer its key.
  function present(state, now) {
    const exact = state.picture && state.picture.figure ? state.picture : null;
    const shown = exact || state.draft;
    const refusal = state.refusal ? state.refusal.sentence : shown && shown.refusal;
    const status = !state.connected ? "no connection"
      : refusal ? "refused"
      : shown && shown.local && shown.exact ? "local"
      : exact || (shown && shown.exact) ? "exact"
      : !shown ? "drawing"
      : shown.empty && !state.picture ? "no draft"
      : state.picture ? "draft only"
      : state.solvingSince !== null ? "solving"
      : "draft";
    const counting = state.solvingSince !== null && (status === "solving" || status === "no draft");
    const seconds = counting ? Math.floor((now - state.solvingSince) / 1000) : status === "drawing" ? Math.max(0, Math.floor((now - state.since) / 1000)) : 0;
    const drafted = !state.report && state.draft && state.draft.numbers && state.draft.numbers.length > 0;
    const numbers = state.report ? state.report.numbers.slice() : drafted ? state.draft.numbers.slice() : null;
    if (numbers && state.report && exact && exact.numbers)
      for (const row of exact.numbers) {
        const index = numbers.findIndex((old) => old[0] === row[0]);
        if (index >= 0) numbers[index] = row;
        else numbers.push(row);
      }
    return {
      key: state.key, status: status, seconds: seconds, shown: shown, stale: !shown, refusal: refusal || "",
      badge: state.connected && state.report ? state.report.badge : null, numbers: numbers, drafted: Boolean(drafted && !state.draft.exact),
      sentence: state.picture && state.picture.sentence ? state.picture.sentence : "",
    };
  }

  root.oneheadMachine = { initial: initial, step: step, present: present };
})(typeof window === "undefined" ? globalThis : window);
