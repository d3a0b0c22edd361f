// Badge, numbers, state and sentences: the screen, from what the machine may say. Everything is set as text.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const LOST = "The program behind this page does not answer; start onehead app again, and this page goes on by itself.";
  const WORDS = {
    drawing: "drawing", "no sketch": "no sketch · solving", sketch: "sketch", solving: "sketch · solving", "sketch only": "sketch · no exact answer", exact: "exact",
    refused: "refused", "no connection": "no connection",
  };

  let shownBadge = "";
  function badge(level, sentence, notes) {
    const box = $("badge"), now = JSON.stringify([level, sentence, notes]);
    if (now === shownBadge) return; // what is said again is not announced again
    shownBadge = now;
    box.className = "badge " + level;
    box.firstChild.textContent = level === "waiting" ? "…" : level;
    box.lastChild.textContent = sentence === level ? "" : sentence;
    $("notes").replaceChildren(...notes.map((note) => Object.assign(document.createElement("li"), { textContent: note })));
  }

  function row(number) {
    const [name, symbol, value, meaning] = number, tr = document.createElement("tr");
    const th = document.createElement("th"), td = document.createElement("td");
    th.scope = "row";
    th.textContent = name;
    if (symbol) th.append(Object.assign(document.createElement("span"), { className: "symbol", textContent: " " + symbol }));
    if (meaning) th.append(Object.assign(document.createElement("small"), { textContent: meaning }));
    td.textContent = value;
    td.dataset.number = name;
    tr.append(th, td);
    return tr;
  }

  let shownNumbers = "";
  function numbers(rows) {
    const body = $("numbers").tBodies[0];
    $("numbers").classList.toggle("stale", !rows);
    if (!rows) {
      // values of another question leave the page; their names keep its shape
      body.querySelectorAll("td").forEach((td) => (td.textContent = "…"));
      shownNumbers = "";
      return;
    }
    const now = JSON.stringify(rows);
    if (now === shownNumbers) return;
    body.replaceChildren(...rows.map(row));
    shownNumbers = now;
  }

  function say(id, words) {
    if ($(id).textContent !== words) $(id).textContent = words;
  }

  function show(seen) {
    const word = WORDS[seen.word] + (seen.word === "solving" || seen.word === "no sketch" ? " " + seen.seconds + " s" : "");
    say("state", word);
    $("state").className = seen.word.split(" ").join("-");
    $("frame").classList.toggle("stale", seen.stale || seen.word === "refused" && !(seen.shown && seen.shown.refusal));
    if (seen.word === "no connection") badge("failed", LOST, []);
    else if (seen.badge) badge(...seen.badge);
    else if (seen.refusal) badge("failed", seen.refusal, []);
    else badge("waiting", "", []);
    numbers(seen.numbers);
    if (seen.shown) {
      say("caption", [seen.sentence || seen.shown.caption, seen.shown.note, window.oneheadNote].filter(Boolean).join(" "));
      say("python", seen.shown.python || $("python").textContent);
      say("shell", seen.shown.shell || $("shell").textContent);
    } else say("caption", seen.refusal || "");
  }

  window.oneheadPanel = { show: show };
})();
