// Answers of a page without a server, for settings that are not recorded: the draft solver in the place of the library.
//
// An answer has the form of those of the server. Its figure is that of a recorded answer of the same view with other values, and it is
// marked as `local`: computed in this page, without a certificate.
(function () {
  "use strict";
  const VIEWS = ["head", "curve", "spectrum", "decay"];
  const DRAFT_POINTS = 13, FINE_POINTS = 25, DIRECT_POINTS = 13, BEST_POINTS = 13, DECAYS = 13; // along a curve
  const DRAFT_MILLISECONDS = 600; // of one curve; points not reached by then are left out
  const DENSITY_POINTS = 120; // per bulk
  const MEANING = "Computed in this page with a small quadrature rule, within about 1 %. onehead app gives five digits and a certificate.";
  const RULES_DIFFER = "Computed in this page with two small quadrature rules, which differ by {} % here. onehead app gives five digits and a certificate.";
  const ONE_RULE = "Computed in this page; only the finer of its two quadrature rules has a solution here, so it may be off by several per cent.";
  const CURVE_DIFFERS = " Two quadrature rules differ by up to {} %.";
  const TOLERATED = 0.01; // difference of the rules up to which a draft is not marked
  const TOO_SHARP = "The labels are too sharp for the quadrature rule of this page; onehead app solves these values. Lower β₀, the target width, the noise or the share of the mean.";
  const NOT_FOUND = "No draft was found here; onehead app solves these values.";
  let settings, recent = null, latest = ""; // points of the last curve, and the question asked last

  const value = (query, name) => (query.get(name) === null ? settings.knobs[name].default : query.get(name));
  const valuesOf = (query) => Object.fromEntries(Object.keys(settings.knobs).map((name) => [name, value(query, name)]));
  const isOn = (v) => v === true || v === "1" || v === "true";
  const digits = (v) => (v === 0 ? "0" : Number(v.toPrecision(3)).toString());

  // whether the solver knows this kind of head; numbers are checked by `wrong`
  function supports(view, values) {
    if (!settings.recorded || !settings.recorded.solver || !settings.recorded.solver.includes(view)) return false;
    return oneheadSolver.problem(Object.assign({}, values, { kappa0: 1, weight_decay: 1, unasked: 0 })) !== null;
  }

  // a sentence for every number that is not one, or beyond ten times the range of its slider
  function wrong(view, values) {
    const found = {};
    for (const name of settings.views[view].knobs) {
      const k = settings.knobs[name], v = Number(values[name]);
      if (k.kind !== "number" || !settings.recorded.solverKnobs.includes(name)) continue;
      const low = k.log ? k.low / 10 : k.low, high = name === "unasked" ? k.high : k.high * 10;
      if (String(values[name]).trim() === "" || !(v >= low && v <= high)) found[name] = k.label + " " + k.symbol + " must be a number from " + digits(low) + " to " + digits(high) + " on this page; onehead app takes more.";
    }
    const [from, to] = [Number(values.alpha_from), Number(values.alpha_to)];
    if (view === "curve" && !found.alpha_to && !(to >= 1.2 * from)) found.alpha_to = settings.knobs.alpha_to.label + " must be at least 1.2 times the left end.";
    return found;
  }

  const spaced = (from, to, count) => Array.from({ length: count }, (_, i) => from * Math.pow(to / from, i / (count - 1)));
  const pause = () => new Promise((resolve) => setTimeout(resolve, 0));

  // points in falling order, with a pause after each; null as soon as another question is asked
  async function walk(problem, alphas, quality, old, key) {
    const next = oneheadSolver.chain(problem, quality, old), found = [];
    for (const alpha of alphas.slice().sort((a, b) => b - a)) {
      const point = next(alpha);
      if (point) found.push(point);
      await pause();
      if (key !== latest) return null;
    }
    return found.reverse();
  }

  const falling = (points) => (points ? points.slice().reverse() : null);

  // the marked point, from the points of the last curve or along a short one
  function pointAt(problem, alpha, quality) {
    const near = recent && recent.kind === kindOf(problem) ? oneheadSolver.interpolated(falling(recent.points), alpha) : null;
    const found = near && oneheadSolver.solve(problem, alpha, near, quality);
    if (found) return found;
    const path = [alpha];
    while (path[0] < 2) path.unshift(1.6 * path[0]);
    const points = oneheadSolver.curve(problem, path, quality);
    return points.find((point) => point.alpha === alpha) || null;
  }

  const percent = (share) => Number((100 * share).toPrecision(2)).toString();

  // largest relative difference of the test errors of two curves, at the sample ratios that they share
  function largestDifference(points, others) {
    const pairs = points.map((p) => [p, others.find((other) => Math.abs(Math.log(other.alpha / p.alpha)) < 1e-9)]).filter(([, other]) => other);
    return Math.max(0, ...pairs.map(([p, other]) => Math.abs(other.test_error / p.test_error - 1)));
  }

  // what is known of the accuracy of a point: how far the solution on the coarser rule is from it
  function meaning(problem, point) {
    const other = oneheadSolver.solve(problem, point.alpha, point.coordinates, "draft");
    if (!other) return ONE_RULE;
    const off = Math.abs(other.test_error / point.test_error - 1);
    return off > TOLERATED ? RULES_DIFFER.replace("{}", percent(off)) : MEANING;
  }

  const kindOf = (problem) => [problem.tied, problem.paired, problem.loss, problem.param, problem.field > 0].join();

  // ---- figures: a recorded one with other values

  const copy = (value) => JSON.parse(JSON.stringify(value));
  const trace = (figure, name) => copy(figure.data.find((own) => (own.name || "").startsWith(name)));
  const drawn = (own, x, y, changes) => Object.assign(own, { x: x, y: y }, changes);

  function verticalMarks(layout, marks, at) {
    const line = layout.shapes[layout.shapes.length - 1], dotted = { type: "line", y0: 0, y1: 1, yref: "paper", line: { color: "@grey", width: 1, dash: "dot" } };
    layout.shapes = marks.map(([x]) => Object.assign({}, dotted, { x0: x, x1: x }));
    const [low, high] = layout.xaxis.range;
    layout.annotations = marks.map(([x, text], row) => {
      const right = Math.log10(x) - low > 0.7 * (high - low);
      return { x: Math.log10(x), y: 1, yref: "paper", yshift: 16 * row, text: text, showarrow: false, xanchor: right ? "right" : "left", yanchor: "bottom", xshift: right ? -3 : 3, font: { size: 11, color: "@grey" } };
    });
    layout.margin = Object.assign({}, layout.margin, { t: Math.max(12, 16 * marks.length + 4) });
    if (at >= 10 ** low && at <= 10 ** high) layout.shapes.push(Object.assign({}, line, { x0: at, x1: at }));
    layout.meta = { by: "alpha", at: at };
  }

  const MARKS = { interpolation: "interpolation", direct: "direct interpolation", emergence: "emergence", recovery: "perfect recovery" };

  async function curve(values, template, fine, key) {
    const problem = oneheadSolver.problem(values), from = Number(values.alpha_from), to = Number(values.alpha_to), alpha = Number(values.alpha);
    const old = recent && recent.kind === kindOf(problem) ? falling(recent.points) : null, quality = fine ? "fine" : "draft";
    const solved = async (own, count, start) => fine ? walk(own, spaced(from, to, count), quality, start, key)
      : oneheadSolver.curve(own, spaced(from, to, count), quality, { old: start, milliseconds: DRAFT_MILLISECONDS });
    const before = recent && recent.key === key ? recent : null;
    const points = await solved(problem, fine ? FINE_POINTS : DRAFT_POINTS, old);
    if (!points) return null;
    if (!points.length) return { refused: NOT_FOUND };
    // the fine curve may be asked for again, without another draft before it
    const off = !fine || !before ? 0 : before.off !== null ? before.off : largestDifference(points, before.points);
    if (points.length > 2) recent = { kind: kindOf(problem), key: key, points: points, off: fine ? off : null };
    const x = points.map((p) => p.alpha), column = (name) => points.map((p) => p[name]), smooth = (own, on) => ({ line: Object.assign({}, own.line, { shape: on ? "spline" : "linear", smoothing: 0.6 }) });
    const put = (name, xs, ys, changes) => {
      const own = trace(template, name);
      return drawn(own, xs, ys, Object.assign(smooth(own, !fine), changes));
    };
    const data = [put("test error", x, column("test_error"), { name: "test error (" + values.param + ")" })];
    if (isOn(values.details)) data.push(put("clean labels", x, column("test_error_clean")), put("objective per sample", x, points.map((p) => p.train_loss / p.alpha)));
    let top = Math.max(...data.flatMap((own) => own.y));
    if (isOn(values.direct)) {
      const param = values.param === "direct" ? "factorised" : "direct", other = oneheadSolver.problem(Object.assign({}, values, { param: param }));
      const found = await solved(other, fine ? DIRECT_POINTS : 7, null);
      if (!found) return null;
      const own = trace(template, "test error (direct)");
      data.push(drawn(own, found.map((p) => p.alpha), found.map((p) => p.test_error), { name: "test error (" + param + ")" }));
      top = Math.max(top, Math.min(2.5 * top, Math.max(...found.map((p) => p.test_error))));
    }
    const best = spaced(from, to, BEST_POINTS).map((a) => [a, oneheadSolver.bestPossible(problem, a)]).filter((pair) => pair[1] !== null);
    if (best.length) data.push(drawn(trace(template, "best possible"), best.map((p) => p[0]), best.map((p) => p[1])));
    data.push(drawn(trace(template, "rank"), x, column("rank")));
    const layout = copy(template.layout), decades = Math.log10(to / from);
    Object.assign(layout.xaxis, { range: [Math.log10(from), Math.log10(to)], dtick: decades < 0.9 ? "D1" : decades < 2.6 ? "D2" : 1 });
    layout.yaxis.range = [0, 1.12 * top];
    const marks = Object.entries(oneheadSolver.thresholds(problem)).filter(([, a]) => a >= from && a <= to).sort((a, b) => a[1] - b[1]);
    const differs = off > TOLERATED ? CURVE_DIFFERS.replace("{}", percent(off)) : "";
    verticalMarks(layout, marks.map(([name, a]) => [a, MARKS[name]]), alpha);
    return { figure: { data: data, layout: layout }, caption: (fine ? points.length + " points, computed in this page." : "Draft, computed in this page.") + differs };
  }

  async function decay(values, template, fine, key) {
    const alpha = Number(values.alpha), x = spaced(1e-3, 3, DECAYS), y = [];
    let near = null;
    const solvedX = [];
    for (const weightDecay of x.slice().reverse()) {
      const problem = oneheadSolver.problem(Object.assign({}, values, { weight_decay: weightDecay }));
      const point = (near && oneheadSolver.solve(problem, alpha, near, fine ? "fine" : "draft")) || pointAt(problem, alpha, fine ? "fine" : "draft");
      if (point) {
        solvedX.unshift(weightDecay);
        y.unshift(point.test_error);
        near = point.coordinates || near;
      }
      if (fine) await pause();
      if (key !== latest) return null;
    }
    if (y.length < 2) return { refused: NOT_FOUND };
    const lowest = y.indexOf(Math.min(...y)), data = [drawn(trace(template, "test error"), solvedX, y)], own = Number(values.weight_decay);
    const star = trace(template, "best,");
    data.push(drawn(star, [solvedX[lowest]], [y[lowest]], { name: "best of these, λ = " + digits(solvedX[lowest]) }));
    const possible = oneheadSolver.bestPossible(oneheadSolver.problem(values), alpha);
    if (possible !== null) data.push(drawn(trace(template, "best possible"), [solvedX[0], solvedX.at(-1)], [possible, possible]));
    if (own >= solvedX[0] && own <= solvedX.at(-1)) {
      const i = Math.max(1, solvedX.findIndex((v) => v >= own)), share = Math.log(own / solvedX[i - 1]) / Math.log(solvedX[i] / solvedX[i - 1]);
      data.push(drawn(trace(template, "knob"), [own], [y[i - 1] + share * (y[i] - y[i - 1])], { name: "knob, λ = " + digits(own) }));
    }
    return { figure: { data: data, layout: copy(template.layout) }, caption: y.length + " points, computed in this page." };
  }

  const mapOf = (point) => point.map;

  function spectrum(values, template, fine) {
    const problem = oneheadSolver.problem(values), point = pointAt(problem, Number(values.alpha), fine ? "fine" : "draft");
    if (!point) return { refused: NOT_FOUND };
    const { s, eps, cut, slope } = mapOf(point), zero = 1 - point.rank, own = problem.tied ? "eigenvalue" : "singular value", beta = problem.beta;
    const grid = (low, high) => Array.from({ length: DENSITY_POINTS }, (_, i) => low + (high - low) * 0.5 * (1 - Math.cos((Math.PI * i) / (DENSITY_POINTS - 1))));
    const target = oneheadSolver.law(Object.assign({}, problem, { scale: problem.scale / beta }), 1e-5 * (problem.scale / beta) ** 2), k = problem.kappa0;
    const [low, high] = target.edges.at(-1), tx = grid(low, high), ty = tx.map((x) => target.density(x) * target.sides);
    const law = point.rank > 0 ? oneheadSolver.law(problem, s) : null, from = law && law.sides === 2 ? Math.max(cut, 0) : cut;
    const bulks = law ? law.edges.filter((e) => e[1] > from).map(([a, b]) => grid(Math.max(a, from), b)).map((at) => [
      at.map((x) => slope * (x - eps)), at.map((x) => (law.sides * law.density(x)) / slope)]) : [];
    const heights = bulks.map(([, y]) => Math.max(...y.slice(2, -2))), data = [];
    const atZero = Math.max(0, 1 - Math.min(k, 1)); // zeros of the target
    data.push(drawn(trace(template, "target"), tx, ty, { name: "target, non-zero part (" + digits(atZero) + " at zero)" }));
    bulks.forEach(([x, y], i) => data.push(drawn(trace(template, "trained map"), x, y, { showlegend: i === 0 })));
    const tall = Math.max(...ty.filter((_, i) => tx[i] > low + 0.02 * (high - low))), targetTop = Math.min(tall, 1);
    const top = Math.min(1.3 * Math.max(targetTop, ...heights), 10 * Math.max(targetTop, 0.2)), right = Math.max(high, ...bulks.map(([x]) => x.at(-1))), left = Math.min(0, ...bulks.map(([x]) => x[0]));
    data.push(drawn(trace(template, "zero "), [0], [zero], { name: "zero " + own + "s: " + (100 * zero).toFixed(1) + "%", width: 0.018 * (right - left) }));
    const layout = copy(template.layout);
    layout.xaxis.range = [left - 0.05 * (right - left), right + 0.05 * (right - left)];
    layout.xaxis.title.text = own + " of the query-key map S";
    layout.yaxis.range = [0, top];
    layout.annotations = [];
    const parts = !bulks.length ? "The map has not emerged: weight decay keeps every " + own + " at zero."
      : (100 * zero).toFixed(1) + "% of the " + own + "s are zero; the others form " + (bulks.length === 1 ? "one bulk." : bulks.length + " bulks: noise and signal have separated.");
    return { figure: { data: data, layout: layout }, caption: parts };
  }

  // ---- the head: the random numbers of the server's picture, and the law of the trained map (2.3)

  // eigenvalues and eigenvectors (columns) of a symmetric matrix, by Jacobi rotations
  function eigen(matrix) {
    const n = matrix.length, a = matrix.map((row) => row.slice()), v = a.map((_, i) => a.map((__, j) => (i === j ? 1 : 0)));
    for (let sweep = 0; sweep < 30; sweep++) {
      let off = 0;
      for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) off += a[p][q] ** 2;
      if (off < 1e-22) break;
      for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) {
        if (Math.abs(a[p][q]) < 1e-300) continue;
        const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]), t = (Math.sign(theta) || 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1)), c = 1 / Math.sqrt(t * t + 1), s = t * c;
        for (let i = 0; i < n; i++) [a[i][p], a[i][q]] = [c * a[i][p] - s * a[i][q], s * a[i][p] + c * a[i][q]];
        for (let i = 0; i < n; i++) [a[p][i], a[q][i]] = [c * a[p][i] - s * a[q][i], s * a[p][i] + c * a[q][i]];
        for (let i = 0; i < n; i++) [v[i][p], v[i][q]] = [c * v[i][p] - s * v[i][q], s * v[i][p] + c * v[i][q]];
      }
    }
    return { values: a.map((row, i) => row[i]), vectors: v };
  }

  const product = (a, b) => a.map((row) => b[0].map((_, j) => row.reduce((sum, v, k) => sum + v * b[k][j], 0)));
  const transposed = (a) => a[0].map((_, j) => a.map((row) => row[j]));
  // a matrix with each singular value x (eigenvalue of a symmetric one) replaced by f(x)
  function spectralMap(matrix, symmetric, f) {
    if (symmetric) {
      const { values, vectors } = eigen(matrix);
      return product(vectors.map((row) => row.map((v, j) => v * f(values[j]))), transposed(vectors));
    }
    const { values, vectors } = eigen(product(transposed(matrix), matrix)), x = values.map((v) => Math.sqrt(Math.max(v, 0)));
    const weights = vectors.map((row) => row.map((v, j) => (x[j] > 1e-9 ? (v * f(x[j])) / x[j] : 0)));
    return product(product(matrix, weights), transposed(vectors));
  }
  const spectrumOf = (matrix, symmetric) => (symmetric ? eigen(matrix).values : eigen(product(transposed(matrix), matrix)).values.map((v) => Math.sqrt(Math.max(v, 0)))).sort((a, b) => b - a);

  function attention(map, scene, beta, values) {
    const d = map.length, tied = values.attention === "tied", trace = map.reduce((sum, row, i) => sum + row[i], 0), keys = tied ? scene.tokens : scene.keys;
    const pulled = product(scene.tokens, map);
    return pulled.map((row, i) => {
      const scores = keys.map((key, j) => (beta * (row.reduce((sum, v, k) => sum + v * key[k], 0) - (tied && i === j ? trace : 0))) / Math.sqrt(d));
      const seen = scores.map((v, j) => (values.mask === "causal" && j > i ? -Infinity : v)), most = Math.max(...seen), powers = seen.map((v) => Math.exp(v - most)), sum = powers.reduce((x, y) => x + y, 0);
      return powers.map((v) => v / sum);
    });
  }

  function head(values, template, fine, scene) {
    const problem = oneheadSolver.problem(values), point = pointAt(problem, Number(values.alpha), fine ? "fine" : "draft");
    if (!point) return { refused: NOT_FOUND };
    const { s, eps, cut, slope } = mapOf(point), d = scene.noise.length, tied = problem.tied, width = Math.max(1, Math.round(problem.kappa0 * d)), normal = scene.normal;
    if ((tied ? 1 : 2) * width * d > normal.length) return { refused: "Target width is at most " + digits(normal.length / d / d / (tied ? 1 : 2)) + " in this picture; onehead app draws wider ones." };
    const factor = (from) => Array.from({ length: width }, (_, i) => normal.slice(from + i * d, from + (i + 1) * d)), Q = factor(0), K = tied ? Q : factor(width * d);
    const target = product(transposed(Q), K).map((row) => row.map((v) => v / Math.sqrt(width * d)));
    const blur = scene.noise.map((row, i) => row.map((v, j) => (tied ? (v + scene.noise[j][i]) / Math.sqrt(2 * d) : v / Math.sqrt(d))));
    const noisy = target.map((row, i) => row.map((v, j) => problem.scale * v + Math.sqrt(s) * blur[i][j]));
    const learned = point.rank === 0 ? target.map((row) => row.map(() => 0)) : spectralMap(noisy, tied, (x) => (x > cut ? slope * (x - eps) : 0));
    const spectra = [spectrumOf(target, tied), spectrumOf(learned, tied)], weights = [attention(target, scene, problem.scale, values), attention(learned, scene, problem.beta, values)];
    const figure = copy(template), own = (name) => figure.data.filter((t) => t.name === name), most = Math.max(...target.flat().map(Math.abs));
    own("map of the teacher")[0].z = target;
    own("map of the learner")[0].z = learned;
    for (const name of ["map of the teacher", "map of the learner"]) Object.assign(own(name)[0], { zmin: -most, zmax: most });
    own("attention of the teacher")[0].z = weights[0];
    own("attention of the learner")[0].z = weights[1];
    own("values of the target").forEach((t) => (t.y = spectra[0]));
    own("values of the learner").forEach((t) => (t.y = spectra[1]));
    const low = Math.min(0, ...spectra.flat()), high = Math.max(...spectra.flat()), limits = [low - 0.06 * (high - low), high + 0.06 * (high - low)];
    for (const t of figure.data) if (t.name.startsWith("values of")) figure.layout["yaxis" + t.yaxis.slice(1)].range = limits;
    figure.layout.annotations.forEach((note) => (note.text = note.text.replace(/eigenvalues|singular values/, tied ? "eigenvalues" : "singular values")));
    const words = scene.words && scene.words[problem.tied ? 0 : 1]; // keys of cross-attention are another sequence
    if (words) for (const t of figure.data) if (/^(attention|row) of the/.test(t.name)) t.x = words;
    return { figure: figure, caption: "Sampled from the theory, not trained: d = " + d + ", one sequence of " + scene.tokens.length + " tokens, one seed. Computed in this page." };
  }

  // ---- numbers and code

  function numbers(view, problem, point) {
    const plural = problem.tied ? "eigenvalues" : "singular values";
    const rows = [["Test error", "", point.test_error, "on fresh samples with noisy labels"], ["Clean test error", "", point.test_error_clean, "on fresh samples with labels without noise"],
      ["Training loss", "", point.train_loss, "objective divided by d², at the minimum"], ["Rank", "", point.rank, "share of " + plural + " of S that are not zero"],
      ["Size", "q", point.q, "|S|²/d"], ["Overlap", "m", point.m, "Tr S'S*/d"]];
    if (problem.field > 0) rows.push(["Share of the common logits", "c", point.field, "that is learned of what all queries share"]);
    if (view === "curve") rows.push(["Self-response", "Σ", point.sigma, "how far a training sample pulls its own logits"]);
    else if (view !== "decay") rows.push(["Noise variance", "s", point.map.s, "added to the target"], ["Soft threshold", "ε", point.map.eps, "set by weight decay"], ["Slope", "c", point.map.slope, "scale of learned " + plural]);
    return rows.map(([name, symbol, v, meaning]) => [name, symbol, digits(v), meaning]);
  }

  function shareRow(made, values) {
    if (!made.figure) return [];
    const share = oneheadStory.share(made.figure, Number(values.beta) / Number(values.beta0));
    return [["Share learned", "", share.toFixed(3), "of the target's variance, in the maps drawn: 1 − |βS − β₀S*|²/|β₀S*|²"]];
  }

  function code(view, values) {
    const own = settings.recorded.solverKnobs.filter((name) => !["alpha", "alpha_from", "alpha_to", "details", "direct"].includes(name) && String(values[name]) !== String(settings.knobs[name].default));
    const target = values.attention === "tied" ? [] : ["--target product"], flags = [...target, ...own.map((name) => "--" + name.replaceAll("_", "-") + " " + values[name])].join(" ");
    const verb = view === "spectrum" ? "spectrum" : view === "decay" ? "tune" : "predict", given = (flags ? " " + flags : "") + " --json";
    const curveLine = view === "curve" ? "\nonehead aim curve --alphas log:" + values.alpha_from + ":" + values.alpha_to + ":25" + given : "";
    return { shell: "onehead aim " + verb + " --alpha " + values.alpha + given + curveLine, python: "# in the explorer itself (onehead app) this box holds Python, too" };
  }

  // ---- answers

  async function answer(kind, key, table) {
    const query = new URLSearchParams(key), view = query.get("view"), values = valuesOf(query), bad = wrong(view, values);
    latest = key;
    if (Object.keys(bad).length) return kind === "draw" ? { key: key, wrong: bad } : { key: key, refused: Object.values(bad)[0] };
    const problem = oneheadSolver.problem(values);
    if (problem === null) return { key: key, refused: NOT_FOUND }; // a combination that is not solved here
    if (oneheadSolver.tooSharp(problem)) return { key: key, refused: TOO_SHARP };
    if (kind === "report") {
      const point = pointAt(problem, Number(values.alpha), "fine"), rows = point && numbers(view, problem, point);
      if (rows && view === "head") rows.push(...shareRow(head(values, templateOf(view, table), true, table.scene), values));
      return rows ? { key: key, badge: ["draft", meaning(problem, point), []], numbers: rows } : { key: key, refused: NOT_FOUND };
    }
    const template = templateOf(view, table), fine = kind !== "draw";
    const made = view === "curve" ? await curve(values, template, fine, key) : view === "decay" ? await decay(values, template, fine, key)
      : view === "head" ? head(values, template, fine, table.scene) : spectrum(values, template, fine);
    if (!made) return { key: key, superseded: true };
    if (made.refused) return { key: key, refused: made.refused };
    // while α plays no report is asked for: the numbers come with the picture
    const now = !fine && settings.views[view].plays && pointAt(problem, Number(values.alpha), "draft");
    if (now) made.numbers = numbers(view, problem, now).concat(view === "head" ? shareRow(made, values) : []);
    return Object.assign({ key: key, local: true, exact: fine, refusal: "", missing: "", empty: false, alt: made.caption }, made, code(view, values));
  }

  // a figure of a view with all its curves
  function templateOf(view, table) {
    if (table.templates[view]) return table.templates[view];
    const name = oneheadKnobs.recordName(view, (knob) => settings.knobs[knob].default), names = Object.keys(table.draw);
    const found = table.draw[name] || table.draw[names.find((own) => own.startsWith(view + " "))]; // a grid may leave out the defaults
    return (table.figures[found.drawing] || found).figure;
  }

  function begin(pageSettings) {
    settings = pageSettings;
  }

  window.oneheadDrafts = { begin: begin, supports: supports, answer: answer, VIEWS: VIEWS };
})();
