// The tokens of the head view: the row of attention of the token that is pointed at, with the mouse, a finger or the keyboard.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  let row = 2; // the token whose row is shown

  const attention = (figure) => ["teacher", "learner"].map((name) => figure.data.find((trace) => trace.name === "attention of the " + name));

  // a figure of the head with the row of attention of the chosen token; any other figure as it is
  function withRow(figure) {
    const maps = attention(figure), isHead = Boolean(maps[0] && maps[1]), words = isHead ? maps[0].y : [];
    showWords(words);
    if (!isHead) return figure;
    const at = Math.min(row, words.length - 1), bars = { "row of the teacher": maps[0], "row of the learner": maps[1] };
    const data = figure.data.map((trace) => (bars[trace.name] ? Object.assign({}, trace, { y: bars[trace.name].z[at] }) : trace));
    const annotations = (figure.layout.annotations || []).map((note) => (/^row of/.test(note.text) ? Object.assign({}, note, { text: "row of “" + words[at] + "”" }) : note));
    const shapes = (figure.layout.shapes || []).map((shape) => (shape.name === "row" ? Object.assign({}, shape, { y0: at - 0.5, y1: at + 0.5 }) : shape));
    return { data: data, layout: Object.assign({}, figure.layout, { annotations: annotations, shapes: shapes }) };
  }

  // one button for each token, for the keyboard and for fingers
  function showWords(words) {
    const box = $("tokens"), now = Array.from(box.querySelectorAll("button"), (button) => button.textContent);
    if (now.join("\n") !== words.join("\n"))
      box.replaceChildren(...words.map((word, i) => {
        const button = Object.assign(document.createElement("button"), { type: "button", className: "chip", textContent: word });
        ["click", "focus", "pointerenter"].forEach((name) => button.addEventListener(name, () => choose(i)));
        return button;
      }));
    Array.from(box.children).forEach((button, i) => button.setAttribute("aria-pressed", i === Math.min(row, words.length - 1)));
  }

  function choose(i) {
    if (i === row) return;
    row = i;
    oneheadDrawing.redraw();
  }

  function listen(picture) {
    picture.on("plotly_hover", (event) => {
      const point = event.points[0], words = point.data.y;
      if (/^attention of the/.test(point.data.name || "")) choose(Math.max(0, words.indexOf(point.y)));
    });
  }

  window.oneheadTokens = { withRow: withRow, listen: listen };
})();
