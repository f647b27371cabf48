// The sections of the page, and its reactions to clicks and choices.

const UNFINISHED = ["failed", "interrupted", "damaged"];
const ENVIRONMENTS = distinct(
  RUNS.filter((run) => run.curves.length).map((run) => run.env),
);
const COMPARABLE = ENVIRONMENTS.length === 1; // the returns of all runs
const GROUPS = distinct(RUNS.map((run) => run.group).filter(known));

// Defaults

function firstColour() {
  const few = (key) => {
    const count = distinct(RUNS.map((run) => field(run, key)).filter(known)).length;
    return count > 1 && count <= DATA.colours.length;
  };
  if (GROUPS.length <= DATA.colours.length) return "group";
  const settings = DATA.differing.filter((key) => key !== "seed" && key !== "env");
  return settings.find(few) || "last";
}

function hasSeeds() {
  const names = RUNS.filter((run) => known(run.group)).map(
    (run) => `${run.env} ${run.group}`,
  );
  return distinct(names).length < names.length;
}

// Curves

function makeLines(runs, style) {
  const parts = new Map();
  for (const run of runs) {
    const key = {run: run.index, seeds: run.group, colour: field(run, view.colour)}[
      view.together
    ];
    const {xs, ys} = series(run, view.x, view.y);
    if (!xs.length) continue;
    if (!parts.has(key)) parts.set(key, []);
    parts
      .get(key)
      .push({run, xs, ys: view.smooth > 1 ? smoothed(ys, view.smooth) : ys});
  }
  const named = view.together === "colour" && view.colour !== "group";
  return [...parts].flatMap(([key, members]) => {
    const mean = averaged(members);
    // Without a common range of x there is no mean: each run is drawn alone.
    if (members.length === 1 || !mean.xs.length)
      return members.map(({run, xs, ys}) => ({
        xs,
        ys,
        label: run.name,
        runs: [run],
        ...style.styleForRun(run),
      }));
    const label = named ? `${view.colour} ${asText(key)}` : asText(key);
    const runs = members.map(({run}) => run);
    return [{...mean, label, runs, ...style.styleForRun(runs[0])}];
  });
}

const charts = ENVIRONMENTS.map((env) => new Chart(env, pick, hover));

function choice(name, key, options) {
  const items = options.map(([value, text]) =>
    element("option", {value, selected: value === view[key] ? "" : null}, text),
  );
  const act = (event) => {
    view[key] = event.target.value;
    if (key === "x" || key === "y") charts.forEach((chart) => chart.zoomTo(null));
    update();
  };
  return element(
    "label",
    {},
    name,
    element("select", {id: `choose-${key}`, onchange: act}, ...items),
  );
}

function choices() {
  const named = (columns) => columns.map((name) => [name, label(name)]);
  const settings = DATA.differing.map((key) => [key, key]);
  const averages = [
    ["run", "each run"],
    ["seeds", "mean over seeds"],
    ["colour", "mean of a colour"],
  ];
  const smooth = element("input", {
    id: "choose-smooth",
    type: "range",
    min: 1,
    max: 31,
    step: 2,
    value: 1,
    oninput: (event) => {
      view.smooth = Number(event.target.value);
      update();
    },
  });
  const log = element("input", {
    id: "choose-log",
    type: "checkbox",
    onchange: (event) => {
      view.log = event.target.checked;
      charts.forEach((chart) => chart.zoomTo(null));
      update();
    },
  });
  byId("choices").append(
    choice("y", "y", named(DATA.columns)),
    choice("x", "x", named(AXES)),
    choice("colour", "colour", [
      ["group", "name"],
      ...settings,
      ["last", "last return"],
    ]),
    choice("lines", "together", averages),
    element("label", {}, "smooth", smooth),
    element("label", {class: "check"}, log, "log y"),
  );
}

function legend(style) {
  if (style.scale) {
    const bar = element("i", {class: "ramp"});
    bar.style.background = `linear-gradient(90deg, ${[0, 0.5, 1].map(blend).join(",")})`;
    const scale = style.scale.wide ? " (by magnitude)" : "";
    return [
      element(
        "span",
        {},
        shortNumber(style.scale.low),
        bar,
        shortNumber(style.scale.high),
        scale,
      ),
    ];
  }
  const shown = style.values.slice(0, 24).map((value) => {
    const {colour, dash} = style.styleForValue(value);
    const line = shape("line", {
      x1: 0,
      x2: 26,
      y1: 6,
      y2: 6,
      stroke: colour,
      "stroke-width": 3,
      "stroke-dasharray": dash.join(" "),
    });
    const name = view.colour === "group" ? value : `${view.colour} ${asText(value)}`;
    return element(
      "button",
      {
        type: "button",
        title: "Show only these",
        onclick: () => toggleFilter(`${view.colour}="${value}"`),
      },
      shape("svg", {width: 26, height: 12}, line),
      name,
    );
  });
  const more = style.values.length - shown.length;
  return more > 0 ? [...shown, element("span", {}, `and ${more} more`)] : shown;
}

function thinned() {
  const [points, longest] = DATA.thinned;
  const words =
    longest > points
      ? `Curves are thinned to ${points} of up to ${longest} epochs, evenly spaced; ` +
        "the table uses all epochs. "
      : "";
  const means = hasSeeds()
    ? "A mean ends with the shortest of its runs and its band is their range; runs " +
      "without a common range of x are drawn separately. "
    : "";
  return (
    `${words}${means}Hover to read a value, drag to zoom, double-click to ` +
    "reset; click a curve or a row to highlight it."
  );
}

// Other sections

function summary() {
  const states = distinct(RUNS.map((run) => run.state));
  const counts = states.map(
    (state) => `${RUNS.filter((run) => run.state === state).length} ${state}`,
  );
  const seconds = RUNS.reduce((sum, run) => sum + (run.seconds || 0), 0);
  const words = [`${plural(RUNS.length, "run")}: ${counts.join(", ")}`];
  words.push(cut(ENVIRONMENTS.join(", "), 80));
  if (seconds) words.push(`${clock(seconds)} of training in total`);
  const best = RUNS.filter((run) => known(run.best)).sort((a, b) => b.best - a.best)[0];
  if (best && COMPARABLE)
    words.push(`best return ${shortNumber(best.best)}, by ${best.name}`);
  byId("summary").textContent = words.filter(Boolean).join(" · ");
}

function causes() {
  const ended = RUNS.filter((run) => UNFINISHED.includes(run.state));
  byId("unfinished").hidden = !ended.length;
  const unknown = "no message: the process was killed or the machine went down";
  for (const run of ended) {
    const state = element("span", {class: `state ${run.state}`}, run.state);
    byId("causes").append(
      element("dt", {title: run.path}, run.name, " ", state),
      element("dd", {}, run.cause || unknown),
    );
  }
}

// The values of a setting, with the number of runs and their mean last return.
function settingValues(key) {
  const values = distinct(RUNS.map((run) => run.settings[key]).filter(known));
  if (numeric(values)) values.sort((a, b) => a - b);
  if (values.length > 12) {
    const ends = numeric(values) ? `${asText(values[0])} to ${asText(values.at(-1))}` : "";
    return [[ends, `${values.length} values`, ...(COMPARABLE ? [""] : [])]];
  }
  return values.map((value) => {
    const runs = RUNS.filter((run) => run.settings[key] === value);
    const lasts = runs.map((run) => run.last).filter(known);
    const mean = lasts.reduce((sum, last) => sum + last, 0) / lasts.length;
    const meanText = lasts.length ? shortNumber(mean) : "";
    return [asText(value), plural(runs.length, "run"), ...(COMPARABLE ? [meanText] : [])];
  });
}

function settings() {
  const heads = ["setting", "value", "", ...(COMPARABLE ? ["mean last return"] : [])];
  const head = heads.map((text) => element("th", {scope: "col"}, text));
  const rows = DATA.differing.flatMap((key) =>
    settingValues(key).map((cells, i) =>
      element(
        "tr",
        {class: i ? "" : "first"},
        element("th", {scope: "row"}, i ? "" : key),
        ...cells.map((text) => element("td", {}, text)),
      ),
    ),
  );
  const table = element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows),
  );
  byId("differing").append(
    rows.length
      ? element("div", {class: "wide"}, table)
      : element(
          "p",
          {class: "note"},
          RUNS.length > 1 ? "All runs have the same settings." : "",
        ),
  );
  const common = Object.entries(DATA.common);
  const title =
    RUNS.length > 1
      ? `${plural(common.length, "setting")} in common`
      : plural(common.length, "setting");
  byId("common").append(element("summary", {}, title), pairs(common));
  byId("common").open = RUNS.length === 1;
}

function pairs(entries) {
  const items = entries.map(([key, value]) =>
    element("div", {}, element("dt", {}, key), element("dd", {}, asText(value))),
  );
  return element("dl", {class: "pairs"}, ...items);
}

function videos() {
  const found = RUNS.flatMap((run) =>
    (run.videos || []).map((video) => ({run, ...video})),
  );
  byId("videos").hidden = !found.length;
  for (const {run, name, source} of found) {
    const still = /\.gif$/i.test(name);
    const node = still
      ? element("img", {src: source, alt: `${run.name}: ${name}`, loading: "lazy"})
      : element("video", {
          src: source,
          controls: "",
          preload: "metadata",
          loop: "",
          muted: "",
        });
    byId("video-list").append(
      element(
        "figure",
        {},
        node,
        element(
          "figcaption",
          {},
          `${run.name}: `,
          element("a", {href: source, download: name}, name),
        ),
      ),
    );
  }
}

function machines() {
  const used = DATA.machines.map((machine, i) => [
    machine,
    RUNS.filter((run) => run.machine === i),
  ]);
  byId("machines").hidden = !used.length;
  for (const [machine, runs] of used) {
    const seconds = runs.map((run) => run.seconds).filter(known);
    const speeds = runs.map((run) => run.speed).filter(known);
    const total = seconds.reduce((a, b) => a + b, 0);
    const times = seconds.length
      ? [
          ["total time", clock(total)],
          ["longest run", clock(Math.max(...seconds))],
        ]
      : [];
    const range = distinct([Math.min(...speeds), Math.max(...speeds)].map(shortNumber));
    if (speeds.length) times.push(["steps a second", range.join(" to ")]);
    byId("hardware").append(
      element("h3", {}, plural(runs.length, "run")),
      pairs([...times, ...Object.entries(machine)]),
    );
  }
}

// Interaction

const table = new Table(byId("table"), pick, hover);
const parallel = new Parallel(
  byId("axes"),
  (key, test) => {
    if (test) view.ranges.set(key, test);
    else view.ranges.delete(key);
    update();
  },
  hover,
  pick,
);

function shownText(count) {
  const all = plural(RUNS.length, "run");
  if (count === RUNS.length) return all;
  const unknown = count ? [] : unknownKeys(view.filter);
  const why = unknown.length ? `: none has ${unknown.join(" or ")}` : "";
  return `${count} of ${all}${why}`;
}

function update() {
  const runs = visibleRuns();
  const [shown, style] = [new Set(runs), styles(view.colour)];
  byId("shown").textContent = shownText(runs.length);
  charts.forEach((chart, i) => {
    const here = runs.filter((run) => run.env === ENVIRONMENTS[i]);
    chart.node.hidden = charts.length > 1 && !here.length;
    chart.show(makeLines(here, style));
  });
  byId("legend").replaceChildren(...legend(style));
  table.show(shown, style);
  parallel.show(shown);
}

function mark() {
  table.mark();
  parallel.mark();
  charts.forEach((chart) => chart.draw());
}

function hover(run) {
  if (view.hovered === run) return;
  view.hovered = run;
  mark();
}

// Highlights runs, or removes the highlight if all have it.
function pick(runs) {
  const all = runs.every((run) => view.picked.has(run));
  for (const run of runs) view.picked[all ? "delete" : "add"](run);
  mark();
}

function toggleFilter(text) {
  byId("filter").value = byId("filter").value === text ? "" : text;
  byId("filter").dispatchEvent(new Event("input"));
}

byId("filter").addEventListener("input", (event) => {
  view.filter = event.target.value;
  update();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);

view.colour = firstColour();
view.together = hasSeeds() ? "seeds" : "run";
summary();
choices();
byId("charts").append(...charts.map((chart) => chart.node));
byId("curves").hidden = !charts.length;
byId("thinned").textContent = thinned();
byId("parallel").hidden = !parallel.useful;
causes();
settings();
videos();
machines();
byId("made").textContent = `Made by ${DATA.made}`;
update();
