// One sentence about the head on the screen, which changes while α grows: how much of the target is learned, sizes included.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  // share of the target's variance below which a sentence holds
  const SENTENCES = [
    [-0.02, "The map follows the noise of the labels: it is further from the target than no map at all."],
    [0.02, "Too few samples: the head has learned nothing."],
    [0.35, "The strongest features of the target emerge, much smaller than they are."],
    [0.65, "The head begins to attend to the same tokens as the teacher; features are still too small or missing."],
    [0.9, "Most of the target is learned; weak features are missing and the others somewhat too small."],
    [Infinity, "The head attends almost as the teacher does."],
  ];

  // 1 − |βS − β₀S*|²/|β₀S*|² of the two maps of a figure; null where the figure has none
  function share(figure, ratio) {
    const maps = ["teacher", "learner"].map((who) => figure.data.find((trace) => trace.name === "map of the " + who));
    if (!maps[0] || !maps[1]) return null;
    const [target, learned] = maps.map((trace) => trace.z.flat()), sum = (values) => values.reduce((a, b) => a + b * b, 0);
    return 1 - sum(learned.map((v, i) => ratio * v - target[i])) / sum(target);
  }

  const sentence = (learned) => SENTENCES.find(([end]) => learned < end)[1];

  function setText(id, text) {
    if ($(id).textContent !== text) $(id).textContent = text; // a repeated text must not be announced again
  }

  // the sentence for a figure of the head; without a figure none is shown
  function tell(figure) {
    const values = oneheadKnobs.values, learned = figure && share(figure, Number(values.beta) / Number(values.beta0));
    $("story").hidden = learned === null;
    if (learned === null) return;
    setText("story-text", sentence(learned));
    setText("story-share", learned < 0 ? "" : Math.round(100 * learned) + " % of the target’s variance is learned.");
  }

  window.oneheadStory = { share: share, sentence: sentence, tell: tell };
})();
