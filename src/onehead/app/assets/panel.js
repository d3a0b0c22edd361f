// Badge, numbers, status and caption on the screen, from the values of the state machine. Everything is set as text, never as HTML.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const DISCONNECTED = "The server of this page does not answer. Start onehead app again; the page then continues by itself.";
  const COMPILING = "drawing · the first use of a kind of head takes up to 15 s · ";
  const DRAFT = "Two digits of a quick preview; the exact numbers follow when the knobs rest.";
  const STATUS_TEXTS = {
    drawing: "drawing", "no draft": "no draft · solving", draft: "draft", solving: "draft · solving", "draft only": "draft · no exact answer",
    exact: "exact", local: "computed in this page", refused: "refused", "no connection": "no connection",
  };

  // an exact solution of an approximate or conjectured formula is not called exact
  const SOLVED_TEXTS = { approximate: "solved · approximate", conjecture: "solved · conjecture", failed: "no solution" };

  function statusOf(page) {
    const level = page.badge ? page.badge[0] : "";
    if (page.status !== "exact") return [page.status, STATUS_TEXTS[page.status]];
    if (page.shown && page.shown.missing) return ["draft", page.shown.missing];
    return level in SOLVED_TEXTS ? [level === "failed" ? "refused" : "draft", SOLVED_TEXTS[level]] : ["exact", STATUS_TEXTS.exact];
  }

  let shownBadge = "";
  function badge(level, sentence, notes) {
    const box = $("badge"), now = JSON.stringify([level, sentence, notes]);
    if (now === shownBadge) return; // a repeated badge must not be announced again by screen readers
    shownBadge = now;
    box.className = "badge " + level;
    box.firstChild.textContent = level === "waiting" ? "…" : sentence ? level + "." : level;
    box.lastChild.textContent = sentence ? " " + sentence : "";
    $("notes").replaceChildren(...notes.map((note) => Object.assign(document.createElement("li"), { textContent: note })));
  }

  // symbols in the colours that they have in the formula
  const ROLES = { s: "third", "ε": "second", c: "theory" };

  function row(number) {
    const [name, symbol, value, meaning] = number, tr = document.createElement("tr");
    const th = document.createElement("th"), td = document.createElement("td");
    th.scope = "row";
    th.textContent = name;
    if (symbol) th.append(Object.assign(document.createElement("span"), { className: "symbol " + (ROLES[symbol] || ""), textContent: " " + symbol }));
    if (meaning) th.append(Object.assign(document.createElement("small"), { textContent: meaning }));
    td.textContent = value;
    td.dataset.number = name;
    tr.append(th, td);
    return tr;
  }

  let shownNumbers = "";
  function numbers(rows, refused) {
    const body = $("numbers").tBodies[0];
    if (!rows && refused) {
      body.replaceChildren(); // names of another question say nothing of this one
      shownNumbers = "";
      return;
    }
    $("numbers").classList.toggle("stale", !rows);
    if (!rows) {
      // remove the values of the previous question, and keep the names so that the layout does not jump
      body.querySelectorAll("td").forEach((td) => (td.textContent = "…"));
      shownNumbers = "";
      return;
    }
    const now = JSON.stringify(rows);
    if (now === shownNumbers) return;
    body.replaceChildren(...rows.map(row));
    shownNumbers = now;
  }

  function setText(id, text) {
    if ($(id).textContent !== text) $(id).textContent = text;
  }

  function show(page) {
    const { status, shown } = page, counting = status === "solving" || status === "no draft";
    const [style, words] = statusOf(page);
    // a draft takes a tenth of a second, but the first use of a kind of head compiles its code
    const late = status === "drawing" && page.seconds >= 2;
    const kept = page.playing && status === "drawing" && !late; // the label and the caption of the picture that is still shown
    if (!kept) {
      setText("state", late ? COMPILING + page.seconds + " s" : words + (counting ? " " + page.seconds + " s" : ""));
      $("state").className = style.split(" ").join("-");
    }
    $("frame").classList.toggle("stale", page.stale && status !== "refused");
    if (status === "no connection") badge("failed", DISCONNECTED, []);
    else if (page.badge) badge(...page.badge);
    else if (page.refusal) badge("failed", page.refusal, []);
    else if (page.drafted || (kept && shownBadge.includes(DRAFT))) badge("draft", DRAFT, []);
    else badge("waiting", "", []);
    // while a knob plays, the numbers of the last point stay, with its value in their title, until those of the next arrive
    if (page.numbers || !page.playing) {
      numbers(page.numbers, status === "refused");
      setText("numbers-title", (page.drafted ? "Draft of the numbers at " : "Numbers at ") + (page.playing || "the marked point"));
    }
    if (shown) {
      setText("caption", [page.sentence || shown.caption, shown.note, window.oneheadNote].filter(Boolean).join(" "));
      setText("python", shown.python || $("python").textContent);
      setText("shell", shown.shell || $("shell").textContent);
    } else if (!kept) setText("caption", "");
  }

  window.oneheadPanel = { show: show };
})();
