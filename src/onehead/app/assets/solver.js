// A draft solver: the state evolution of heads with two tokens and soft labels, on a small quadrature rule, in plain JavaScript.
//
// It solves the equations of docs/theory.md (2.2, 2.3, 2.4, 2.5, 3, 4.6, 6), docs/theory-heads.md (U2) and docs/theory-data.md (D2).
// onehead.aim is the reference: a test compares both. A draft has no certificate. Numbers in parentheses are headings of those pages.
(function (root) {
  "use strict";
  const PANEL_NODES = 32; // Gauss-Legendre nodes per panel of a spectral integral
  // lattices: largest spacing in standard deviations and in logits, and radius. In the plane for a row of two columns (U2.1); in four
  // dimensions for rows that share logits (2.5), coarser while a knob moves
  const ROWS = { spacing: 0.35, logits: 0.7, radius: 6 }, JUMPS = { spacing: 0.1, logits: 0.1, radius: 6 }; // JUMPS: fine, where proximal points jump
  const RULES = { draft: { spacing: 0.85, logits: 2.4, radius: 4.6 }, fine: { spacing: 0.6, logits: 1.7, radius: 5.4 } };
  const WIDEST = { paired: 5.6, rows: 40 }; // standard deviation of a logit of the label up to which these lattices resolve it in a short time
  const SIGMA_MILLISECONDS = { draft: 300, fine: 1500 }; // of the slower route through Σ
  const FREE_SHARE = 0.7; // of the standard deviation of a logit, that of the learner's logit given the label's in most problems
  const TOLERANCE = { draft: 3e-4, fine: 2e-5 }; // largest change of log q, log m, log Σ in one step of the equations
  const MEMORY = 4; // differences that Anderson acceleration keeps
  const MAX_EVALUATIONS = 60;
  const SINGLE_MINIMUM_SIGMA = 1.04; // up to here a proximal point of the squared loss has one minimum (2.7)
  const ORIGIN = { q: 1e-10, sigma: 1e-7 }; // q and Σ that stand for those of a zero map (4.6)
  const EMERGED = 3e-5; // relative distance of edge and threshold below which the map counts as zero

  // ---- quadrature

  function gaussLegendre(count) {
    const x = new Float64Array(count), w = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      let z = Math.cos((Math.PI * (i + 0.75)) / (count + 0.5)), slope = 1;
      for (let k = 0; k < 100; k++) {
        let p = 1, before = 0;
        for (let j = 1; j <= count; j++) [p, before] = [((2 * j - 1) * z * p - (j - 1) * before) / j, p];
        slope = (count * (z * p - before)) / (z * z - 1);
        const step = p / slope;
        z -= step;
        if (Math.abs(step) < 1e-15) break;
      }
      x[count - 1 - i] = 0.5 * (1 + z);
      w[count - 1 - i] = 1 / ((1 - z * z) * slope * slope);
    }
    return { x: x, w: w };
  }

  const legendre = gaussLegendre(PANEL_NODES);

  // equally spaced nodes in a ball, half a spacing off the origin, with renormalised Gaussian weights; the coordinates in `folded` are
  // kept positive, because a reflection together with another coordinate changes nothing
  function lattice(spacings, radius, folded) {
    const dim = spacings.length, columns = spacings.map(() => []), weights = [], point = new Array(dim).fill(0);
    const fill = (depth, square) => {
      if (depth === dim) {
        columns.forEach((column, i) => column.push(point[i]));
        weights.push(Math.exp(-0.5 * square));
        return;
      }
      const h = spacings[depth], count = Math.ceil(Math.sqrt(radius * radius - square) / h);
      for (let i = folded.includes(depth) ? 0 : -count; i < count; i++) {
        const x = (i + 0.5) * h;
        point[depth] = x;
        if (square + x * x < radius * radius) fill(depth + 1, square + x * x);
      }
    };
    fill(0, 0);
    const total = weights.reduce((sum, w) => sum + w, 0);
    return { columns: columns.map((c) => Float64Array.from(c)), weights: Float64Array.from(weights, (w) => w / total) };
  }

  const rules = new Map();
  // nodes of a rule with label and free coordinates, (a1, a2, b1, b2) for two rows that share logits, (a, b) for one row; the wider the
  // logits of the label, with standard deviations `widths`, the closer the nodes
  function rule(quality, widths, jumps) {
    const paired = widths.length === 2, own = paired ? RULES[quality] : jumps && quality === "fine" ? JUMPS : ROWS;
    const close = (width) => Math.min(own.spacing, Number((own.logits / width).toPrecision(1)));
    const spacings = [...widths.map(close), ...widths.map((width) => close(FREE_SHARE * width))], name = own.radius + " " + spacings;
    if (!rules.has(name)) {
      if (rules.size > 24) rules.delete(rules.keys().next().value);
      rules.set(name, lattice(spacings, own.radius, paired ? [0, 1] : [0]));
    }
    return rules.get(name);
  }

  // ---- laws: the target plus a free semicircle of variance s

  // roots of a polynomial with leading coefficient one, coefficients from the constant up, by the Durand-Kerner iteration
  function polynomialRoots(c) {
    const n = c.length, size = 1 + Math.max(...c.map(Math.abs)), roots = [];
    const radius = Math.min(size, 2 * Math.max(...c.map((v, i) => Math.pow(Math.abs(v), 1 / (n - i)))));
    for (let i = 0; i < n; i++) roots.push([radius * Math.cos(0.4 + (2 * Math.PI * i) / n), radius * Math.sin(0.4 + (2 * Math.PI * i) / n)]);
    for (let step = 0; step < 400; step++) {
      let change = 0;
      for (let i = 0; i < n; i++) {
        const [x, y] = roots[i];
        let re = 1, im = 0, dr = 1, di = 0;
        for (let k = n - 1; k >= 0; k--) [re, im] = [re * x - im * y + c[k], re * y + im * x];
        for (let j = 0; j < n; j++) {
          if (j === i) continue;
          const a = x - roots[j][0], b = y - roots[j][1];
          [dr, di] = [dr * a - di * b, dr * b + di * a];
        }
        const norm = dr * dr + di * di || 1e-300, sr = (re * dr + im * di) / norm, si = (im * dr - re * di) / norm;
        roots[i] = [x - sr, y - si];
        change = Math.max(change, Math.hypot(sr, si) / (Math.hypot(x, y) + 1e-300));
      }
      if (change < 1e-14) break;
    }
    return roots;
  }

  // density and Re g of the Marchenko-Pastur law plus a semicircle: one real root of the cubic leaves a complex pair
  function cubicTransform(x, k, s) {
    const b2 = -(x / s + k), b1 = ((x + 1 / k - k) * k) / s, b0 = -k / s, shift = b2 / 3;
    const p = b1 - (b2 * b2) / 3, q = 2 * shift ** 3 - shift * b1 + b0, discriminant = 0.25 * q * q + p ** 3 / 27;
    let t;
    if (discriminant <= 0) {
      const size = 2 * Math.sqrt(Math.max(-p / 3, 0)), angle = size > 0 ? Math.acos(Math.min(1, Math.max(-1, (3 * q) / (p * size)))) : 0;
      const real = [0, 1, 2].map((j) => size * Math.cos((angle - 2 * Math.PI * j) / 3));
      const gap = (j) => Math.min(Math.abs(real[j] - real[(j + 1) % 3]), Math.abs(real[j] - real[(j + 2) % 3]));
      t = real[[0, 1, 2].reduce((best, j) => (gap(j) > gap(best) ? j : best), 0)] - shift;
    } else {
      const radical = Math.sqrt(discriminant), u = Math.cbrt(q > 0 ? -0.5 * q - radical : -0.5 * q + radical);
      t = u - p / (3 * u) - shift;
    }
    for (let i = 0; i < 3; i++) {
      const slope = (3 * t + 2 * b2) * t + b1;
      if (slope === 0) break;
      t -= (((t + b2) * t + b1) * t + b0) / slope;
    }
    const modulus2 = -b0 / t, re = Math.abs(t) > 0.5 * Math.abs(b2) ? (b1 - modulus2) / (2 * t) : -0.5 * (b2 + t);
    return [Math.sqrt(Math.max(modulus2 - re * re, 0)) / Math.PI, re];
  }

  // Marchenko-Pastur law of ratio kappa0 plus a semicircle: intervals of the support, quadrature nodes, density
  function marchenkoPastur(kappa0, s) {
    const k = Math.sqrt(kappa0);
    // edges: x(g) is stationary, a quartic in g
    const roots = polynomialRoots([(-k * k) / s, (2 * k) / s, k * k - (1 - k * k) / s, -2 * k]);
    const xOf = ([a, b]) => {
      const inverse = (re, im) => [re / (re * re + im * im), -im / (re * re + im * im)], one = inverse(1 - a / k, -b / k), g = inverse(a, b);
      return s * a + k * one[0] + g[0];
    };
    const real = roots.filter(([a, b]) => Math.abs(b) <= 1e-7 * Math.hypot(a, b)), complex = roots.filter((r) => !real.includes(r));
    const ends = real.map(xOf).sort((a, b) => a - b), edges = [], panels = [];
    for (let i = 0; i + 1 < ends.length; i += 2) edges.push([ends[i], ends[i + 1]]);
    const split = edges.length === 1 && complex.length ? xOf(complex[0]) : null;
    for (const [low, high] of edges) panels.push(...(split !== null && low < split && split < high ? [[low, split], [split, high]] : [[low, high]]));
    const top = edges[edges.length - 1][1];
    // x, mass and Re g above `from`
    function nodes(from) {
      const x = [], mass = [], hilbert = [];
      for (const [low, high] of panels) {
        const left = Math.max(low, from);
        if (!(high - left > 1e-13 * Math.max(Math.abs(left), Math.abs(high)))) continue;
        for (let i = 0; i < PANEL_NODES; i++) {
          const at = left + (high - left) * 0.5 * (1 - Math.cos(Math.PI * legendre.x[i])), [rho, re] = cubicTransform(at, k, s);
          x.push(at);
          mass.push((high - left) * 0.5 * Math.PI * Math.sin(Math.PI * legendre.x[i]) * legendre.w[i] * rho);
          hilbert.push(re);
        }
      }
      return { x: x, mass: mass, hilbert: hilbert };
    }
    return { sides: 1, edges: edges, top: top, nodes: nodes, density: (x) => cubicTransform(x, k, s)[0] };
  }

  // singular values of a product of Gaussian matrices plus a semicircle, parametrised by log y (spectra/product.py)
  function productLaw(k, s) {
    const sigma = k * s, b = k - 1 + sigma, rootB = Math.sqrt(b * b + 4 * sigma);
    const zero = b > 0 ? 2 / (b + rootB) : (rootB - b) / (2 * sigma);
    const excess = (v) => (1 - sigma * v) * (1 - v) ** 2 - k * v * (1 + v);
    let low = 0, high = Math.min(1, 1 / sigma), top = Math.min(high, 1 / (2 + sigma + k));
    for (let i = 0; i < 200; i++) {
      const value = excess(top), slope = -sigma * (1 - top) ** 2 - 2 * (1 - sigma * top) * (1 - top) - k * (1 + 2 * top);
      if (value > 0) low = top;
      else high = top;
      let next = top - value / slope;
      if (!(low <= next && next <= high)) next = 0.5 * (low + high);
      const done = Math.abs(next - top) <= 2e-16 * top;
      top = next;
      if (done) break;
    }
    const y = (1 - top) ** 2 / (k * (1 + top)), linear = 1 - k + sigma * (2 - top), constant = 1 / top;
    const discriminant = linear * linear - 4 * sigma * constant;
    let bulks, panels; // bulks in decreasing order; a panel is a bulk and its angles
    if (discriminant > 0 && linear > 0) {
      const root = linear + Math.sqrt(discriminant), second = (2 * constant) / root, third = (0.5 * root) / sigma;
      const [y2] = [second, third].map((v) => (v - 1) ** 2 / (k * (1 + v))), y1 = (third - 1) ** 2 / (k * (1 + third));
      const rise = Math.log1p(1 / zero) + Math.log1p(1 / third) - 2 * Math.log1p(-1 / third);
      bulks = [
        { y: y, width: Math.log(y2 / y), top: top, bottom: second, linear: 0, constant: 0, third: third },
        { y: y1, width: Math.log1p(Math.expm1(rise) / (sigma * third)), top: third, bottom: zero, linear: sigma * (second + top), constant: 1 / third, third: 0 },
      ];
      panels = [[0, 0, Math.PI], [1, 0, Math.PI]];
    } else {
      const width = Math.log1p(zero) + Math.log1p(top) - 2 * Math.log1p(-top);
      bulks = [{ y: y, width: width, top: top, bottom: zero, linear: linear, constant: constant, third: 0 }];
      panels = [[0, 0, 0.5 * Math.PI], [0, 0.5 * Math.PI, Math.PI]];
      if (discriminant < 0) {
        const re = linear / (2 * sigma), im = Math.sqrt(-discriminant) / (2 * sigma), dr = y * (1 - sigma * re), di = -y * sigma * im;
        const norm = dr * dr + di * di, split = 0.5 * Math.log((re * re + im * im) / norm);
        if (split > 0 && split < width) {
          const angle = 2 * Math.asin(Math.sqrt(split / width));
          panels = [[0, 0, angle], [0, angle, Math.PI]];
        }
      }
    }
    function point(angle, bulk) {
      const sine = Math.sin(0.5 * angle), cosine = Math.cos(0.5 * angle), fromTop = bulk.width * sine * sine, toBottom = bulk.width * cosine * cosine;
      const here = bulk.y * Math.exp(fromTop), e = 1 / (1 + sigma * here), v = here * e, above = -v * (bulk.top / bulk.y) * Math.expm1(-fromTop);
      let sine2, belowZero;
      if (bulk.third > 0) {
        sine2 = above * v * (1 - sigma * bulk.bottom) * Math.expm1(toBottom) * sigma * (bulk.third - v);
        belowZero = zero - v;
      } else {
        belowZero = v * ((k * zero) / (1 + zero)) * Math.expm1(toBottom);
        sine2 = above * Math.max((sigma * v - bulk.linear) * v + bulk.constant, 0);
      }
      const sinPhi = Math.sqrt(Math.max(sine2, 0) / (4 * v * e)), cosPhi = Math.sqrt(((1 + v) * belowZero * (sigma * v + 1 / zero)) / (4 * v * e));
      const fall = 0.25 * (e / v + (v * (k - 1 + sigma * v * (2 - sigma * v))) / e + k * sigma * here);
      const r = Math.sqrt(k * v), size = (2 * (1 + sigma * v * v)) / (r * (1 + v)), growth = e * ((2 * sigma * v * v) / (1 + sigma * v * v) - 0.5 - v / (1 + v));
      const slope = size * ((0.5 * fall) / cosPhi - cosPhi * growth) * bulk.width * sine * cosine;
      return [size * cosPhi, (r * sinPhi) / Math.PI, r * cosPhi, slope];
    }
    const edge = (v) => (2 * (1 + sigma * v * v)) / (Math.sqrt(k * v) * (1 + v));
    const edges = bulks.map((bulk) => [bulk.third > 0 ? edge(bulk.bottom) : 0, edge(bulk.top)]).reverse();
    function angleOf(x, i) {
      const [from, to] = edges[edges.length - 1 - i];
      if (x >= to) return 0;
      if (x <= from) return Math.PI;
      let a = 0, z = Math.PI;
      for (let step = 0; step < 50; step++) {
        const middle = 0.5 * (a + z);
        if (point(middle, bulks[i])[0] > x) a = middle;
        else z = middle;
      }
      return 0.5 * (a + z);
    }
    function nodes(from) {
      const x = [], mass = [], hilbert = [];
      for (const [i, begin, end] of panels) {
        const last = Math.min(end, angleOf(Math.max(from, 0), i));
        if (!(last - begin > 1e-12)) continue;
        for (let j = 0; j < PANEL_NODES; j++) {
          const [at, rho, re, slope] = point(last - (last - begin) * legendre.x[j], bulks[i]);
          x.push(at);
          mass.push(rho * slope * (last - begin) * legendre.w[j]);
          hilbert.push(re);
        }
      }
      return { x: x, mass: mass, hilbert: hilbert };
    }
    function density(x) {
      const i = edges.findIndex(([from, to]) => from <= x && x < to);
      return i < 0 ? 0 : point(angleOf(x, edges.length - 1 - i), bulks[edges.length - 1 - i])[1];
    }
    return { sides: 2, edges: edges, top: edges[edges.length - 1][1], nodes: nodes, density: density };
  }

  // the law of a target whose eigenvalues are multiplied by `scale`
  function lawOf(problem, s) {
    const scale = problem.scale, own = problem.tied ? marchenkoPastur(problem.kappa0, s / scale ** 2) : productLaw(problem.kappa0, s / scale ** 2);
    if (scale === 1) return own;
    return {
      sides: own.sides, top: scale * own.top, edges: own.edges.map((e) => e.map((x) => scale * x)), density: (x) => own.density(x / scale) / scale,
      nodes: (from) => {
        const found = own.nodes(from / scale);
        return { x: found.x.map((x) => scale * x), mass: found.mass, hilbert: found.hilbert.map((h) => h / scale) };
      },
    };
  }

  // J, B, A and the rank (2.3, U2.2), at most the share `width` of the values (3)
  function thresholdIntegrals(law, eps, width) {
    const total = (nodes) => law.sides * nodes.mass.reduce((sum, v) => sum + v, 0), from = law.sides === 2 ? Math.max(eps, 0) : eps;
    let nodes = law.nodes(from), rank = Math.min(total(nodes), 1), cut = eps;
    if (rank > width) {
      let low = from, high = law.top;
      for (let i = 0; i < 40 && high - low > 1e-9 * law.top; i++) {
        cut = 0.5 * (low + high);
        if (total(law.nodes(cut)) > width) low = cut;
        else high = cut;
      }
      nodes = law.nodes(cut);
      rank = width;
    }
    let J = 0, B = 0, A = 0;
    for (let i = 0; i < nodes.x.length; i++) {
      const f = nodes.x[i] - eps, weighted = nodes.mass[i] * f;
      J += weighted * f;
      B += weighted;
      A += 2 * weighted * nodes.hilbert[i];
    }
    return { J: law.sides * J, B: law.sides * B, A: law.sides * A, rank: rank, cut: cut };
  }

  // ---- losses of one row of two columns, with the label weight y = σ(t): value, slope, curvature, and minus the slope by t

  const sigmoid = (x) => 1 / (1 + Math.exp(-x));
  // each writes four numbers into `out`: nothing is allocated in the inner loops
  const LOSSES = {
    squared: (u, y, out) => {
      const p = 1 / (1 + Math.exp(-u)), d = p * (1 - p), r = p - y;
      out[0] = 2 * r * r;
      out[1] = 4 * r * d;
      out[2] = 4 * (d * d + r * d * (1 - 2 * p));
      out[3] = 4 * d * y * (1 - y);
    },
    "cross-entropy": (u, y, out) => {
      const e = Math.exp(-Math.abs(u)), p = u > 0 ? 1 / (1 + e) : e / (1 + e);
      out[0] = Math.max(u, 0) + Math.log1p(e) - y * u;
      out[1] = p - y;
      out[2] = p * (1 - p);
      out[3] = y * (1 - y);
    },
  };

  // ---- a problem in reduced units (1.5)

  // parameters: attention, mask, kappa0, noise, unasked, beta0, beta, width, weight_decay, param, loss; null where it is not solved here
  function makeProblem(values) {
    const text = (name, otherwise) => (values[name] === undefined ? otherwise : String(values[name]));
    const number = (name, otherwise) => (values[name] === undefined ? otherwise : Number(values[name]));
    const attention = text("attention", "tied"), mask = text("mask", "none"), loss = text("loss", "squared"), param = text("param", "factorised");
    if (!["tied", "cross"].includes(attention) || !["none", "causal"].includes(mask) || !(loss in LOSSES)) return null;
    if (number("tokens", 2) !== 2 || number("kurtosis", 3) !== 3 || text("labels", "soft") !== "soft" || number("aim_heads", 1) !== 1) return null;
    const tied = attention === "tied", beta0 = number("beta0", 1), beta = number("beta", 1), share = number("unasked", 0);
    const kappa0 = number("kappa0", 0.5), decay = number("weight_decay", 0.01);
    if (!(decay > 0) || !(kappa0 > 0) || !(share >= 0 && share < 1)) return null;
    if (share > 0 && tied && mask === "causal") return null;
    const power = beta0 ** 2 * (tied ? 1 + kappa0 : 1), paired = tied && mask === "none", noisy = power + 0.5 * beta0 ** 2 * number("noise", 0.5);
    const field = (power * share) / (1 - share), variance = tied ? 3 : 2; // G (D1.1)
    return {
      tied: tied, paired: paired, loss: loss, param: param, kappa0: kappa0, scale: beta0, beta: beta, width: number("width", 1), unit: tied ? 2 : 1,
      decay: decay / (param === "direct" ? beta ** 2 : beta), power: power, noisy: noisy, field: field, variance: variance, // of u = h_1 - h_2, per unit of q
      widths: (paired ? [4 * noisy, 2 * noisy + 4 * field] : [variance * (noisy + field)]).map(Math.sqrt),
      fieldVariance: tied ? (paired ? 2 : 3) : 2,
      rows: mask === "none" ? 2 : 1, samplePull: tied ? 2 : 1, // factor of α in (2.2) and in (U2.1)
    };
  }

  // ---- the output channel (2.2, 2.5, U2.1, D2): the conjugates per unit of α, and the loss at the proximal points

  const row0 = new Float64Array(4), row1 = new Float64Array(4), point = new Float64Array(2); // results of the two functions below

  // the proximal point of two rows with the metric (p00, p01), from `point`, and the loss of both rows there
  function newtonPair(loss, p00, p01, v0, v1, y0, y1) {
    let u0 = point[0], u1 = point[1];
    loss(u0, y0, row0);
    loss(u1, y1, row1);
    for (let i = 0; i < 60; i++) {
      const x0 = u0 - v0, x1 = u1 - v1, g0 = p00 * x0 + p01 * x1 + row0[1], g1 = p01 * x0 + p00 * x1 + row1[1];
      let h0 = p00 + row0[2], h1 = p00 + row1[2], det = h0 * h1 - p01 * p01;
      if (!(det > 0 && h0 > 0)) {
        h0 = p00 + Math.abs(row0[2]) + Math.abs(p01);
        h1 = p00 + Math.abs(row1[2]) + Math.abs(p01);
        det = h0 * h1 - p01 * p01;
      }
      const d0 = (g1 * p01 - g0 * h1) / det, d1 = (g0 * p01 - g1 * h0) / det;
      const value = 0.5 * (p00 * (x0 * x0 + x1 * x1) + 2 * p01 * x0 * x1) + row0[0] + row1[0], fall = g0 * d0 + g1 * d1;
      const last = Math.abs(d0) + Math.abs(d1) < 1e-5 * (1 + Math.abs(u0) + Math.abs(u1)); // the next error is its square
      let share = 1;
      for (let k = 0; k < 30; k++) {
        const n0 = u0 + share * d0, n1 = u1 + share * d1, z0 = n0 - v0, z1 = n1 - v1;
        loss(n0, y0, row0);
        loss(n1, y1, row1);
        const next = 0.5 * (p00 * (z0 * z0 + z1 * z1) + 2 * p01 * z0 * z1) + row0[0] + row1[0];
        if (next <= value + 1e-4 * share * fall + 1e-14 || k === 29) {
          u0 = n0;
          u1 = n1;
          break;
        }
        share *= 0.5;
      }
      if (last) break;
    }
    point[0] = u0;
    point[1] = u1;
  }

  // the same for one row
  function newtonLine(loss, p, v, y) {
    let u = point[0];
    loss(u, y, row0);
    for (let i = 0; i < 60; i++) {
      const x = u - v, g = p * x + row0[1], h = p + row0[2], d = -g / (h > 0 ? h : p + Math.abs(row0[2])), value = 0.5 * p * x * x + row0[0];
      const last = Math.abs(d) < 1e-5 * (1 + Math.abs(u));
      let share = 1;
      for (let k = 0; k < 30; k++) {
        const n = u + share * d;
        loss(n, y, row0);
        if (0.5 * p * (n - v) ** 2 + row0[0] <= value + 1e-4 * share * g * d + 1e-14 || k === 29) {
          u = n;
          break;
        }
        share *= 0.5;
      }
      if (last) break;
    }
    point[0] = u;
  }

  const hasSeveralMinima = (problem, sigma) => problem.loss === "squared" && sigma > SINGLE_MINIMUM_SIGMA;

  // averages at (q, m, Σ, c): E |e|², the traces of both forms, the loss; `kept` holds the proximal points between calls
  function averages(problem, quality, q, m, sigma, c, kept) {
    const G = problem.field, Q = problem.noisy, loss = LOSSES[problem.loss], jumps = hasSeveralMinima(problem, sigma);
    const nodes = rule(quality, problem.widths, jumps), n = nodes.weights.length, warm = kept.nodes === nodes && !jumps;
    if (kept.nodes !== nodes) Object.assign(kept, { nodes: nodes, points: new Float64Array(2 * n) });
    const u = kept.points, out = { square: 0, pullT: 0, pullV: 0, trace: 0, response: 0, loss: 0, fieldTrace: 0, fieldResponse: 0 };
    if (problem.paired) {
      // the sum and the difference of both rows, over the square root of two, are independent: variances 4 and 2 of the map, 0 and 4 of the field
      const part = (own, field) => {
        const t2 = own * Q + field * G, tv = own * m + field * c * G, v2 = own * q + field * c * c * G;
        return [Math.sqrt(t2), tv / t2, Math.sqrt(Math.max(v2 - (tv * tv) / t2, 0))];
      };
      const [rootP, slopeP, freeP] = part(4, 0), [rootM, slopeM, freeM] = part(2, 4), half = Math.SQRT1_2, p00 = 3 / (8 * sigma), p01 = -1 / (8 * sigma);
      const [a1, a2, b1, b2] = nodes.columns, weights = nodes.weights;
      for (let i = 0; i < n; i++) {
        const w = weights[i], tp = rootP * a1[i], tm = rootM * a2[i], vp = slopeP * tp + freeP * b1[i], vm = slopeM * tm + freeM * b2[i];
        const t0 = half * (tp + tm), t1 = half * (tp - tm), v0 = half * (vp + vm), v1 = half * (vp - vm), y0 = sigmoid(t0), y1 = sigmoid(t1);
        point[0] = warm ? u[2 * i] : t0;
        point[1] = warm ? u[2 * i + 1] : t1;
        newtonPair(loss, p00, p01, v0, v1, y0, y1);
        const u0 = (u[2 * i] = point[0]), u1 = (u[2 * i + 1] = point[1]), l0 = row0[2], l1 = row1[2], r0 = row0[3], r1 = row1[3];
        const x0 = u0 - v0, x1 = u1 - v1, e0 = p00 * x0 + p01 * x1, e1 = p01 * x0 + p00 * x1; // e = C^-1 (u - v)/Σ
        const h0 = p00 + l0, h1 = p00 + l1, det = Math.max(h0 * h1 - p01 * p01, 1e-9 * p00 * p00);
        out.square += w * sigma * (e0 * x0 + e1 * x1);
        out.pullT += w * (e0 * t0 + e1 * t1);
        out.pullV += w * (e0 * v0 + e1 * v1);
        out.trace += (w * (h1 * l0 + h0 * l1)) / det;
        out.response += (w * (h1 * r0 + h0 * r1)) / det;
        out.loss += w * (row0[0] + row1[0]);
        if (G > 0) {
          // tr C_g X = 2 (X_00 + X_11 - X_01 - X_10) of X = P M R, and of P M H, which is the transpose of H M P; M = (P + H)^-1, P = C^-1/Σ
          const m00 = h1 / det, m11 = h0 / det, m01 = -p01 / det, f0 = p00 * m00 + p01 * m01 - p01 * m00 - p00 * m01;
          const f1 = p01 * m01 + p00 * m11 - p00 * m01 - p01 * m11;
          out.fieldResponse += 2 * w * (f0 * r0 + f1 * r1);
          out.fieldTrace += 2 * w * (f0 * l0 + f1 * l1);
        }
      }
      return out;
    }
    const C = problem.variance, t2 = C * (Q + G), tv = C * (m + c * G), v2 = C * (q + c * c * G), root = Math.sqrt(t2), slope = tv / t2;
    const free = Math.sqrt(Math.max(v2 - tv * slope, 0)), p = 1 / (C * sigma), [a, b] = nodes.columns, rows = problem.rows;
    for (let i = 0; i < n; i++) {
      const w = rows * nodes.weights[i], t = root * a[i], v = slope * t + free * b[i], y = sigmoid(t);
      point[0] = warm ? u[i] : t;
      newtonLine(loss, p, v, y);
      u[i] = point[0];
      const x = point[0] - v, e = p * x, h = Math.max(p + row0[2], 1e-9 * p);
      out.square += w * sigma * e * x;
      out.pullT += w * e * t;
      out.pullV += w * e * v;
      out.trace += (w * row0[2]) / h;
      out.response += (w * row0[3]) / h;
      out.loss += w * row0[0];
    }
    return out;
  }

  // the conjugates at sample ratio alpha. Where proximal points jump, derivatives do not see the jumps and the Stein forms are right (2.2);
  // close to recovery the Stein forms lose all digits
  function hatsOf(problem, alpha, found, q, m, sigma, c) {
    const pull = problem.samplePull * alpha, Q = problem.noisy + (problem.paired ? 0 : problem.field), at = problem.paired ? 0 : problem.field;
    const own = q + c * c * at, overlap = m + c * at, determinant = Q * own - overlap * overlap;
    const jumps = hasSeveralMinima(problem, sigma) && determinant > 1e-3 * Q * own && !(problem.paired && problem.field > 0);
    const hats = { q: (pull * found.square) / sigma ** 2 };
    if (jumps) {
      hats.m = (pull * (own * found.pullT - overlap * found.pullV)) / determinant;
      hats.sigma = (-pull * (Q * found.pullV - overlap * found.pullT)) / determinant;
    } else {
      hats.m = (pull * found.response) / sigma;
      hats.sigma = (pull * found.trace) / sigma;
    }
    hats.c = problem.field === 0 ? 0 : problem.paired ? found.fieldResponse / found.fieldTrace : hats.m / hats.sigma;
    return hats;
  }

  // ---- the input channel (2.3, 3, 6, U2.2, U2.4)

  function overlapsOf(problem, hats) {
    const s = hats.q / hats.m ** 2;
    if (problem.param === "direct") {
      const D = hats.sigma + 2 * problem.unit * problem.decay, slope = hats.m / D;
      return { q: (hats.m ** 2 * problem.power + hats.q) / D ** 2, m: slope * problem.power, sigma: 1 / D, rank: 1, map: { s: s, eps: 0, cut: -Infinity, slope: slope } };
    }
    const eps = (problem.unit * problem.decay) / hats.m, slope = hats.m / hats.sigma, part = thresholdIntegrals(lawOf(problem, s), eps, problem.width);
    if (!(part.A > 0)) return null;
    return {
      q: slope ** 2 * part.J, m: slope * (part.J + eps * part.B - s * part.A), sigma: part.A / hats.sigma, rank: part.rank,
      trace: slope * part.B, map: { s: s, eps: eps, cut: part.cut, slope: slope },
    };
  }

  // ---- errors on fresh samples (2.4): a row has two logits, whose difference is Gaussian

  function freshLoss(problem, q, m, c, target, own) {
    const G = problem.field, C = problem.variance, F = problem.fieldVariance, nodes = rule("fine", [Math.sqrt(C * problem.noisy + F * G)]), [a, b] = nodes.columns;
    const t2 = C * target + F * G, tv = C * m + F * c * G, v2 = C * q + F * c * c * G, root = Math.sqrt(t2), free = Math.sqrt(Math.max(v2 - (tv * tv) / t2, 0));
    const loss = own ? LOSSES[problem.loss] : LOSSES.squared;
    let sum = 0;
    for (let i = 0; i < nodes.weights.length; i++) {
      const t = root * a[i];
      loss((tv / t2) * t + free * b[i], sigmoid(t), row0);
      sum += nodes.weights[i] * row0[0];
    }
    return problem.rows * sum;
  }

  // ---- the fixed point (2.8)

  // solve a small system of linear equations with a ridge
  function solveSmall(matrix, right) {
    const n = right.length, a = matrix.map((row, i) => row.concat(right[i]));
    for (let i = 0; i < n; i++) {
      let pivot = i;
      for (let j = i + 1; j < n; j++) if (Math.abs(a[j][i]) > Math.abs(a[pivot][i])) pivot = j;
      [a[i], a[pivot]] = [a[pivot], a[i]];
      if (!a[i][i]) return null;
      for (let j = i + 1; j < n; j++) {
        const factor = a[j][i] / a[i][i];
        for (let k = i; k <= n; k++) a[j][k] -= factor * a[i][k];
      }
    }
    const x = new Array(n);
    for (let i = n - 1; i >= 0; i--) x[i] = (a[i][n] - a[i].slice(i + 1, n).reduce((sum, v, k) => sum + v * x[i + 1 + k], 0)) / a[i][i];
    return x;
  }

  // Anderson acceleration of y -> step(y); the result is null where it does not converge
  function fixedPoint(step, start, tolerance, project) {
    const changes = [];
    let y = start, image = step(y), best = Infinity, stalled = 0;
    let previous = null;
    for (let count = 1; image && count < MAX_EVALUATIONS; count++) {
      const residual = image.map((v, i) => v - y[i]), size = Math.max(...residual.map(Math.abs));
      if (!isFinite(size)) return null;
      if (size < tolerance) return image;
      stalled = size < 0.9 * best ? 0 : stalled + 1;
      best = Math.min(best, size);
      if (stalled > 14) return null;
      if (previous) {
        changes.push([y.map((v, i) => v - previous.y[i]), residual.map((v, i) => v - previous.residual[i])]);
        if (changes.length > MEMORY) changes.shift();
      }
      previous = { y: y, residual: residual };
      let move = residual.map((v) => (changes.length ? v : 0.7 * v));
      if (changes.length) {
        const n = changes.length, dot = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0);
        const gram = changes.map((a, i) => changes.map((b, j) => dot(a[1], b[1]) * (i === j ? 1 + 1e-9 : 1)));
        const share = solveSmall(gram, changes.map((a) => dot(a[1], residual)));
        if (share && share.every(isFinite)) for (let k = 0; k < n; k++) move = move.map((v, i) => v - share[k] * (changes[k][0][i] + changes[k][1][i]));
      }
      const longest = Math.max(...move.map(Math.abs));
      if (longest > 1) move = move.map((v) => v / longest);
      y = project(y.map((v, i) => v + move[i]));
      image = step(y);
    }
    return null;
  }

  // coordinates: log q, log m, log Σ, and c where there is a field
  function stepOf(problem, alpha, quality, kept) {
    return (y) => {
      const [q, m, sigma] = y.slice(0, 3).map(Math.exp), c = problem.field > 0 ? y[3] : 0;
      const hats = hatsOf(problem, alpha, averages(problem, quality, q, m, sigma, c, kept), q, m, sigma, c);
      if (!(hats.q > 0 && hats.m > 0 && hats.sigma > 0)) return null;
      const found = overlapsOf(problem, hats);
      if (!found || !(found.q > 0 && found.m > 0 && found.sigma > 0)) return null;
      kept.last = found;
      return [Math.log(found.q), Math.log(found.m), Math.log(found.sigma), ...(problem.field > 0 ? [hats.c] : [])];
    };
  }

  function projection(problem) {
    const bound = Math.log(problem.power);
    return (y) => {
      const limit = 0.5 * (y[0] + bound) - 1e-9; // m² <= q Q0
      return y[1] > limit ? [y[0], limit, ...y.slice(2)] : y;
    };
  }

  // hats of a map that is zero, where only the field is learned (4.6, D5.1)
  function originHats(problem, alpha, quality) {
    let c = 0.7, hats;
    for (let i = 0; i < (problem.field > 0 ? 40 : 1); i++) {
      const { q, sigma } = ORIGIN, found = averages(problem, quality, q, 0, sigma, problem.field > 0 ? c : 0, {});
      hats = hatsOf(problem, alpha, found, q, 0, sigma, c);
      if (Math.abs(hats.c - c) < 1e-7) break;
      c = hats.c;
    }
    return hats;
  }

  function vanishes(problem, hats) {
    if (problem.param === "direct") return false;
    return lawOf(problem, hats.q / hats.m ** 2).top <= ((1 + EMERGED) * problem.unit * problem.decay) / hats.m;
  }

  // one point as the explorer shows it, in the units of the learner
  function pointOf(problem, alpha, y, found, kept, quality) {
    const [q, m, sigma] = y.slice(0, 3).map(Math.exp), c = problem.field > 0 ? y[3] : 0;
    const loss = averages(problem, quality, q, m, sigma, c, kept).loss, penalty = problem.decay * (problem.param === "direct" ? q : found.trace);
    return {
      alpha: alpha, test_error: freshLoss(problem, q, m, c, problem.noisy), test_error_clean: freshLoss(problem, q, m, c, problem.power),
      train_loss: alpha * loss + penalty, rank: found.rank, q: q / problem.beta ** 2, m: m / (problem.beta * problem.scale), sigma: sigma,
      map: { s: found.map.s, eps: found.map.eps, cut: found.map.cut, slope: found.map.slope / problem.beta }, coordinates: y, field: c,
    };
  }

  function zeroPoint(problem, alpha, hats) {
    const c = problem.field > 0 ? hats.c : 0;
    return {
      alpha: alpha, test_error: freshLoss(problem, 0, 0, c, problem.noisy), test_error_clean: freshLoss(problem, 0, 0, c, problem.power),
      train_loss: alpha * freshLoss(problem, 0, 0, c, problem.noisy, true), rank: 0, q: 0, m: 0, sigma: 0,
      map: { s: 1, eps: 1, cut: 1, slope: 0 }, coordinates: null, field: c,
    };
  }

  // whether the labels are too sharp for the lattices
  const tooSharp = (problem) => Math.max(...problem.widths) > (problem.paired ? WIDEST.paired : WIDEST.rows);

  // solve one point; `near` are coordinates to start from
  function solvePoint(problem, alpha, near, quality) {
    if (tooSharp(problem)) return null;
    const origin = originHats(problem, alpha, quality);
    if (vanishes(problem, origin)) return zeroPoint(problem, alpha, origin);
    const kept = {}, step = stepOf(problem, alpha, quality, kept), project = projection(problem);
    for (const start of [...(near ? [near] : []), plateau(problem, alpha)]) {
      const y = fixedPoint(step, project(start), TOLERANCE[quality], project);
      if (y) return pointOf(problem, alpha, y, kept.last, kept, quality);
    }
    return null;
  }

  // sample ratio at which Σ belongs to the conjugates `unit` per unit of α (2.8); null where none does
  function ratioAtSigma(problem, unit, sigma) {
    if (problem.param === "direct") {
      const ratio = (1 / sigma - 2 * problem.unit * problem.decay) / unit.sigma;
      return ratio > 0 ? ratio : null;
    }
    const gap = (log) => {
      const alpha = Math.exp(log), m = alpha * unit.m;
      return alpha * unit.sigma * sigma - thresholdIntegrals(lawOf(problem, (alpha * unit.q) / m ** 2), (problem.unit * problem.decay) / m, problem.width).A;
    };
    let high = -Math.log(unit.sigma * sigma) + 1e-6, low = high - 0.25;
    for (let i = 0; gap(high) < 0 && i < 40; i++) high += 0.25;
    for (let i = 0; gap(low) > 0; i++) {
      if (i > 40) return null;
      low -= 0.5;
    }
    return Math.exp(rootOf(gap, low, high, 1e-7));
  }

  // a root between two values of opposite sign, by regula falsi with the Illinois weights
  function rootOf(f, a, b, accuracy) {
    let fa = f(a), fb = f(b), side = 0;
    for (let i = 0; i < 60 && Math.abs(b - a) > accuracy && fa !== 0 && fb !== 0; i++) {
      const x = (a * fb - b * fa) / (fb - fa), fx = f(x);
      if (fx * fb > 0) {
        [b, fb] = [x, fx];
        if (side === -1) fa *= 0.5;
        side = -1;
      } else {
        [a, fa] = [x, fx];
        if (side === 1) fb *= 0.5;
        side = 1;
      }
    }
    return Math.abs(fa) < Math.abs(fb) ? a : b;
  }

  // with Σ as the parameter and α an unknown (2.8): where proximal points jump, the iteration at fixed α stalls
  function solveAtSigma(problem, logSigma, start, quality, kept) {
    const sigma = Math.exp(logSigma), fielded = problem.field > 0;
    let alpha = null;
    const step = (y) => {
      const [q, m] = y.slice(0, 2).map(Math.exp), c = fielded ? y[2] : 0;
      const unit = hatsOf(problem, 1, averages(problem, quality, q, m, sigma, c, kept), q, m, sigma, c);
      if (!(unit.q > 0 && unit.m > 0 && unit.sigma > 0)) return null;
      alpha = ratioAtSigma(problem, unit, sigma);
      const found = alpha && overlapsOf(problem, { q: alpha * unit.q, m: alpha * unit.m, sigma: alpha * unit.sigma });
      if (!found || !(found.q > 0 && found.m > 0)) return null;
      kept.last = found;
      return [Math.log(found.q), Math.log(found.m), ...(fielded ? [unit.c] : [])];
    };
    const project = projection(problem), y = fixedPoint(step, [start[0], start[1], ...start.slice(3)], TOLERANCE[quality], project);
    return y ? { alpha: alpha, coordinates: [y[0], y[1], logSigma, ...y.slice(2)], overlaps: kept.last } : null;
  }

  // solve one point through Σ, from a neighbour: Σ falls with α
  function solveThroughSigma(problem, alpha, near, quality) {
    const kept = {}, end = Date.now() + SIGMA_MILLISECONDS[quality];
    let before = null, start = near, logSigma = near[2], stride = 0.25;
    for (let i = 0; i < 60 && Date.now() < end; i++) {
      const now = solveAtSigma(problem, logSigma, start, quality, kept);
      if (!now) {
        if (!before || (stride *= 0.5) < 0.02) return null;
        logSigma = before.coordinates[2] + Math.sign(logSigma - before.coordinates[2]) * stride;
        continue;
      }
      const gap = Math.log(now.alpha / alpha);
      if (Math.abs(gap) < 10 * TOLERANCE[quality]) return pointOf(problem, alpha, now.coordinates, now.overlaps, kept, quality);
      start = now.coordinates;
      const slope = before ? Math.log(now.alpha / before.alpha) / (now.coordinates[2] - before.coordinates[2]) : -0.5;
      const wanted = slope < -0.02 ? -gap / slope : Math.sign(gap) * stride;
      before = now;
      logSigma += Math.max(-stride, Math.min(stride, wanted));
      stride = Math.min(0.6, 1.3 * stride);
    }
    return null;
  }

  // where to start with many samples (8.1): the target, shrunk as noise demands
  function plateau(problem, alpha) {
    const c = problem.power / problem.noisy;
    return [Math.log(c * c * problem.power), Math.log(c * problem.power), Math.log(0.6 / (alpha * problem.rows)), ...(problem.field > 0 ? [c] : [])];
  }

  // coordinates at another sample ratio, from points along a curve in falling order of α; null too far from them
  function interpolated(points, alpha) {
    const own = points.filter((point) => point.coordinates), at = Math.log(alpha);
    for (let i = 0; i + 1 < own.length; i++) {
      const a = Math.log(own[i].alpha), b = Math.log(own[i + 1].alpha);
      if (at > a + 0.3 || at < b - 0.3 || (at < b && i + 2 < own.length)) continue;
      return own[i].coordinates.map((v, k) => v + ((at - a) / (b - a)) * (own[i + 1].coordinates[k] - v));
    }
    return null;
  }

  // a solver of points in falling order of α, each of which starts from those before; `old` are points of a similar problem
  function chain(problem, quality, old) {
    const last = [];
    return (alpha) => {
      const guess = interpolated(old || [], alpha);
      let near = guess;
      if (guess && last.length) {
        const before = interpolated(old, last[last.length - 1].alpha);
        if (before) near = guess.map((v, i) => v + last[last.length - 1].coordinates[i] - before[i]);
      } else if (last.length >= 2) {
        const [a, b] = last.slice(-2), share = Math.min(Math.log(alpha / b.alpha) / Math.log(b.alpha / a.alpha), 1.5);
        near = b.coordinates.map((v, i) => v + share * (v - a.coordinates[i]));
      } else if (last.length) near = last[0].coordinates;
      const point = solvePoint(problem, alpha, near, quality) || (last.length ? solveThroughSigma(problem, alpha, last[last.length - 1].coordinates, quality) : null);
      if (point && point.coordinates) last.push(point);
      return point;
    };
  }

  // a learning curve in rising order of α, without the points that are not solved or not reached within `milliseconds`
  function curve(problem, alphas, quality, options) {
    const { old, milliseconds } = Object.assign({ old: null, milliseconds: Infinity }, options), next = chain(problem, quality, old), end = Date.now() + milliseconds, found = [];
    for (const alpha of alphas.slice().sort((a, b) => b - a)) {
      if (found.length && Date.now() > end) break;
      const point = next(alpha);
      if (point) found.push(point);
    }
    return found.reverse();
  }

  // ---- thresholds (4.2, 4.4, 4.6, 6, U4) and the best possible learner (A.2, A.4)

  // combinations of logits that a sample tells (1.6, U1.1)
  const informative = (problem) => problem.rows;

  function thresholds(problem) {
    if (tooSharp(problem)) return {};
    const J = informative(problem), found = {}, direct = 1 / (problem.unit * J), noiseless = problem.noisy === problem.power;
    const integrals = (s) => thresholdIntegrals(lawOf(problem, s), 0, problem.width);
    if (problem.param === "direct" || (!problem.tied && problem.width >= 1)) found.interpolation = direct;
    else if (noiseless && problem.tied && problem.width >= 1) {
      const k = problem.kappa0;
      found.interpolation = (k < 1 ? (1 + 2 * k - k * k) / 4 : 0.5) / J;
    } else if (problem.width >= 1) {
      const gap = (log) => {
        const s = Math.exp(log), part = integrals(s);
        return part.J - s * part.A - problem.noisy;
      };
      let low = -12, high = 6;
      if (gap(low) * gap(high) < 0) found.interpolation = (0.5 * integrals(Math.exp(rootOf(gap, low, high, 1e-6))).A) / J;
    }
    if (problem.tied && problem.param !== "direct" && found.interpolation !== direct) found.direct = direct;
    if (problem.param !== "direct") {
      const gap = (log) => {
        const hats = originHats(problem, Math.exp(log), "draft");
        return Math.log((hats.m * lawOf(problem, hats.q / hats.m ** 2).top) / (problem.unit * problem.decay));
      };
      if (gap(-9) < 0 && gap(4) > 0) found.emergence = Math.exp(rootOf(gap, -9, 4, 1e-5));
    }
    if (noiseless && problem.tied && problem.param !== "direct" && problem.width >= 1 && problem.kappa0 < 1) {
      const k = problem.kappa0, w = (t) => Math.sqrt(Math.max(4 - t * t, 0)) / (2 * Math.PI);
      const integral = (f, c) => legendre.x.reduce((sum, x, i) => {
        const t = c + (2 - c) * 0.5 * (1 - Math.cos(Math.PI * x));
        return sum + legendre.w[i] * (2 - c) * 0.5 * Math.PI * Math.sin(Math.PI * x) * f(t) * w(t);
      }, 0);
      const c = rootOf((x) => (1 - k) * integral((t) => t - x, x) - k * x, 0, 2, 1e-9);
      found.recovery = (k - 0.5 * k * k + 0.5 * (1 - k) ** 2 * integral((t) => t * (t - c), c)) / J;
    }
    return found;
  }

  // error of the best possible learner of a tied head; null where it is not computed here
  function bestPossible(problem, alpha) {
    if (!problem.tied || problem.field > 0) return null;
    const share = 2 * alpha * informative(problem), noise = problem.noisy - problem.power;
    const F = (s) => {
      const law = lawOf(problem, s), nodes = law.nodes(-Infinity);
      return 1 - ((4 * Math.PI ** 2) / 3) * s * nodes.x.reduce((sum, x, i) => sum + nodes.mass[i] * law.density(x) ** 2, 0);
    };
    const gap = (log) => F(Math.exp(log)) + noise / Math.exp(log) - share;
    if (gap(8) > 0) return null;
    if (gap(-14) < 0) return 0; // recovered
    const s = Math.exp(rootOf(gap, -14, 8, 1e-7)), q = problem.power - s * F(s);
    return 0.5 * freshLoss(problem, problem.noisy, q, 0, problem.noisy);
  }

  root.oneheadSolver = {
    problem: makeProblem, tooSharp: tooSharp, solve: solvePoint, chain: chain, curve: curve, law: lawOf, interpolated: interpolated, thresholds: thresholds, bestPossible: bestPossible,
  };
})(typeof window === "undefined" ? globalThis : window);
