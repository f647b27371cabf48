// The runs, their curves, the filter and the colours.

const DATA = JSON.parse(byId("data").textContent);
const inOrder = (a, b) =>
  String(a).localeCompare(String(b), undefined, {numeric: true});
const RUNS = DATA.runs
  .sort((a, b) => inOrder(a.name, b.name))
  .map((run, index) => ({settings: {}, curves: [], ...run, index}));
const PERFORMANCE = DATA.columns[0];
const FIELDS = [
  "name",
  "group",
  "state",
  "env",
  "taken",
  "last",
  "best",
  "seconds",
  "speed",
];

const view = {
  y: PERFORMANCE,
  colour: "group",
  together: "run",
  smooth: 1,
  log: false,
  filter: "",
  ranges: new Map(), // of the parallel axes, by their key
  picked: new Set(),
  hovered: null,
};

// A setting or another column of the table.
const field = (run, key) =>
  FIELDS.includes(key) ? run[key] : (own(run.settings, key) ?? own(DATA.common, key));

// Only own properties: a setting may be called "constructor".
const own = (object, key) => (Object.hasOwn(object, key) ? object[key] : undefined);

const distinct = (values) => [...new Set(values)];

const label = (column) => own(DATA.labels, column) || column;

const unpacked = new Map();

// Four characters are the upper three bytes of a float32.
function curve(place) {
  if (!unpacked.has(place)) {
    const bytes = atob(DATA.curves[place]);
    const values = new Float32Array(bytes.length / 3);
    const word = new DataView(new ArrayBuffer(4));
    for (let i = 0; i < values.length; i++) {
      for (let j = 0; j < 3; j++) word.setUint8(j, bytes.charCodeAt(3 * i + j));
      values[i] = word.getFloat32(0);
    }
    unpacked.set(place, values);
  }
  return unpacked.get(place);
}

// Columns for the x axis.
const AXES = ["TotalEnvInteracts", "Epoch", "Time"].filter((name) =>
  DATA.columns.includes(name),
);
view.x = AXES[0];

// The points at which both columns have a value.
function series(run, x, y) {
  const [xPlace, yPlace] = [x, y].map((name) => run.curves[DATA.columns.indexOf(name)]);
  const points = {xs: [], ys: []};
  if (!(xPlace >= 0 && yPlace >= 0)) return points;
  const [xs, ys] = [curve(xPlace), curve(yPlace)];
  for (let i = 0; i < xs.length; i++) {
    if (!Number.isFinite(xs[i]) || !Number.isFinite(ys[i])) continue;
    points.xs.push(xs[i]);
    points.ys.push(ys[i]);
  }
  return points;
}

// The moving average, over fewer points at the ends.
function smoothed(values, width) {
  const reach = (width - 1) / 2;
  return values.map((_, i) => {
    const near = values.slice(
      Math.max(0, Math.ceil(i - reach)),
      Math.floor(i + reach) + 1,
    );
    return near.reduce((sum, value) => sum + value, 0) / near.length;
  });
}

function at(xs, ys, x) {
  const i = xs.findIndex((value) => value >= x);
  if (i <= 0) return ys[i < 0 ? ys.length - 1 : 0];
  const share = (x - xs[i - 1]) / (xs[i] - xs[i - 1] || 1);
  return ys[i - 1] + share * (ys[i] - ys[i - 1]);
}

// Mean and range of several curves, up to the end of the shortest.
function averaged(parts) {
  const start = Math.max(...parts.map(({xs}) => xs[0]));
  const end = Math.min(...parts.map(({xs}) => xs[xs.length - 1]));
  const longest = parts.reduce((a, b) => (a.xs.length >= b.xs.length ? a : b));
  const xs = longest.xs.filter((x) => x >= start && x <= end);
  const all = xs.map((x) => parts.map((part) => at(part.xs, part.ys, x)));
  return {
    xs,
    ys: all.map((values) => values.reduce((a, b) => a + b, 0) / values.length),
    low: all.map((values) => Math.min(...values)),
    high: all.map((values) => Math.max(...values)),
  };
}

// Which runs are shown

const plain = (text) =>
  String(text)
    .toLowerCase()
    .replace(/[\s"]+/g, "");

const unquoted = (text) => text.replace(/"/g, "");

function comparison(key, sign, wanted) {
  const number = Number(wanted);
  return (run) => {
    const value = field(run, key);
    if (sign === "<") return known(value) && value < number;
    if (sign === ">") return known(value) && value > number;
    const numbers = typeof value === "number" && wanted !== "" && !Number.isNaN(number);
    const equal = numbers ? value === number : plain(value ?? "") === plain(wanted);
    return equal === (sign === "=");
  };
}

// A condition that is not complete yet, such as best> or best>-
function isIncomplete(sign, wanted) {
  return wanted === "" || ("<>".includes(sign) && Number.isNaN(Number(unquoted(wanted))));
}

function mention(word) {
  return (run) => {
    const words = [
      ...FIELDS.map((key) => run[key]),
      run.cause,
      ...Object.values(run.settings),
    ];
    return words.some((value) => known(value) && plain(value).includes(plain(word)));
  };
}

const KEYS = [...FIELDS, ...DATA.differing, ...Object.keys(DATA.common)];
const filterWords = (filter) => filter.match(/(?:"[^"]*"?|[^\s"])+/g) || [];
const condition = (word) => word.match(/^(.+?)(!=|=|<|>)(.*)$/) || [];

// Every word of the filter as a test of a run.
function tests(filter) {
  return filterWords(filter).map((word) => {
    const [, key, sign, value] = condition(word);
    if (!key || !KEYS.includes(unquoted(key))) return mention(unquoted(word));
    if (isIncomplete(sign, value)) return () => true;
    return comparison(unquoted(key), sign, unquoted(value));
  });
}

// Names in the filter that no run has, such as gama in gama<1.
function unknownKeys(filter) {
  const keys = filterWords(filter).map((word) => unquoted(condition(word)[1] || ""));
  return keys.filter((key) => key && !KEYS.includes(key));
}

function inRanges(run) {
  return [...view.ranges].every(([key, holds]) => holds(field(run, key)));
}

function visibleRuns() {
  const all = tests(view.filter);
  return RUNS.filter((run) => all.every((test) => test(run)) && inRanges(run));
}

// Colours

const DASHES = [[], [2, 3], [8, 3, 2, 3]];
const SCALE = [
  [44, 127, 184],
  [150, 150, 150],
  [230, 128, 26],
]; // for the colour-blind
const numeric = (values) => values.every((value) => typeof value === "number");

function blend(share) {
  const place = Math.min(Math.max(share, 0), 1) * (SCALE.length - 1);
  const i = Math.min(Math.floor(place), SCALE.length - 2);
  const mix = SCALE[i].map((low, j) => low + (place - i) * (SCALE[i + 1][j] - low));
  return `rgb(${mix.map(Math.round).join(",")})`;
}

// Where a number lies between the lowest and the highest; on a logarithmic scale for
// settings that span a factor of ten.
function position(values, key) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const wide = !FIELDS.includes(key) && low > 0 && high / low >= 10;
  const place = wide ? Math.log : (value) => value;
  const span = place(high) - place(low);
  const share = (value) => (span ? (place(value) - place(low)) / span : 0.5);
  return Object.assign(share, {low, high, wide});
}

// The style of each run by one field: colour and dash of a category, or a colour scale.
function styles(key) {
  const values = distinct(RUNS.map((run) => field(run, key)).filter(known));
  if (numeric(values) && values.length > DATA.colours.length) {
    const share = position(values, key);
    const styleForRun = (run) =>
      known(field(run, key))
        ? {colour: blend(share(field(run, key))), dash: []}
        : {colour: "#888888", dash: []};
    return {styleForRun, scale: share, values: []};
  }
  if (numeric(values)) values.sort((a, b) => a - b);
  const [ink, count] = [getComputedStyle(document.body).color, DATA.colours.length];
  const styleForValue = (value) => {
    const i = Math.max(values.indexOf(value), 0);
    const colour = DATA.colours[i % count];
    return {
      colour: colour === "#000000" ? ink : colour,
      dash: DASHES[Math.floor(i / count) % DASHES.length],
    };
  };
  return {
    styleForRun: (run) => styleForValue(field(run, key)),
    styleForValue,
    scale: null,
    values,
  };
}
