// The table of runs: click a head to sort, click a row to highlight its run.

const SPARK = {width: 96, height: 24};

const textColumn = ([key, head]) => ({key, head, text: (run) => asText(field(run, key))});

const COLUMNS = [
  {key: "name", head: "run"},
  {key: "state", head: "state"},
  {key: null, head: "curve"},
  ...[
    ["last", "last return"],
    ["best", "best return"],
  ].map(textColumn),
  ...DATA.differing.map((key) => [key, key]).map(textColumn),
  {key: "taken", head: "steps", text: stepsText},
  {key: "seconds", head: "time", text: (run) => clock(run.seconds)},
  {key: "speed", head: "steps/s", text: (run) => asText(run.speed)},
];

function stepsText(run) {
  if (!known(run.taken)) return "";
  return run.total
    ? `${shortNumber(run.taken)} of ${shortNumber(run.total)}`
    : shortNumber(run.taken);
}

// Missing values come last in both directions.
function compare(a, b, key, way) {
  const [x, y] = [field(a, key), field(b, key)];
  if (!known(x) || !known(y)) return known(y) - known(x);
  if (typeof x === "number" && typeof y === "number") return way * (x - y);
  return way * inOrder(x, y);
}

// One scale for all runs of an environment, so that their curves can be compared.
function sparkScales() {
  const scales = new Map();
  for (const run of RUNS) {
    const {xs, ys} = series(run, view.x, PERFORMANCE);
    const scale = scales.get(run.env) || {end: 0, low: Infinity, high: -Infinity};
    for (let i = 0; i < xs.length; i++) {
      scale.end = Math.max(scale.end, xs[i]);
      scale.low = Math.min(scale.low, ys[i]);
      scale.high = Math.max(scale.high, ys[i]);
    }
    scales.set(run.env, scale);
  }
  return scales;
}

function sparkline(run, {end, low, high}) {
  const {xs, ys} = series(run, view.x, PERFORMANCE);
  const {width, height} = SPARK;
  const x = (value) => 2 + (value / (end || 1)) * (width - 4);
  const y = (value) => height - 3 - ((value - low) / (high - low || 1)) * (height - 6);
  const every = Math.max(1, Math.floor(xs.length / width));
  const points = xs
    .map((value, i) => [x(value), y(ys[i])])
    .filter((_, i) => i % every === 0);
  const path = points.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" ");
  const line = shape("polyline", {points: path, fill: "none", "stroke-width": 1.4});
  return shape("svg", {...SPARK, class: "spark", "aria-hidden": "true"}, line);
}

class Table {
  constructor(node, onPick, onHover) {
    this.sort = {key: "", way: 1};
    this.heads = COLUMNS.map((column) => this.head(column));
    const scales = sparkScales();
    this.rows = RUNS.map((run) => this.row(run, scales, onPick, onHover));
    this.body = element("tbody", {}, ...this.rows);
    node.append(element("thead", {}, element("tr", {}, ...this.heads)), this.body);
  }

  head({key, head, text}) {
    if (!key) return element("th", {scope: "col"}, head);
    const button = element(
      "button",
      {type: "button", onclick: () => this.sortBy(key)},
      head,
    );
    return element(
      "th",
      {scope: "col", "data-key": key, class: text ? "number" : ""},
      button,
    );
  }

  row(run, scales, onPick, onHover) {
    const cells = COLUMNS.map(({key, text}) => {
      if (!key)
        return element(
          "td",
          {},
          run.curves.length ? sparkline(run, scales.get(run.env)) : "",
        );
      if (key === "name")
        return element(
          "th",
          {scope: "row", title: run.path},
          element("i", {class: "swatch"}),
          element("span", {}, element("bdi", {}, run.name)),
        );
      if (key === "state")
        return element(
          "td",
          {},
          element("span", {class: `state ${run.state}`, title: run.cause}, run.state),
        );
      return element("td", {class: "number"}, text(run));
    });
    return element(
      "tr",
      {
        onclick: () => onPick([run]),
        onpointerenter: () => onHover(run),
        onpointerleave: () => onHover(null),
      },
      ...cells,
    );
  }

  // Numbers are sorted from the highest down at first.
  sortBy(key) {
    const first = RUNS.some((run) => typeof field(run, key) === "number") ? -1 : 1;
    this.sort = {key, way: this.sort.key === key ? -this.sort.way : first};
    const order = [...RUNS].sort((a, b) => compare(a, b, key, this.sort.way));
    this.body.append(...order.map((run) => this.rows[run.index]));
    for (const head of this.heads) {
      const way = head.dataset.key === key ? this.sort.way : 0;
      head.setAttribute("aria-sort", ["descending", "none", "ascending"][way + 1]);
    }
  }

  show(shown, style) {
    RUNS.forEach((run, i) => {
      this.rows[i].hidden = !shown.has(run);
      this.rows[i].style.setProperty("--mark", style.styleForRun(run).colour);
    });
    this.mark();
  }

  mark() {
    RUNS.forEach((run, i) => {
      this.rows[i].classList.toggle("picked", view.picked.has(run));
      this.rows[i].classList.toggle("hovered", run === view.hovered);
    });
  }
}
