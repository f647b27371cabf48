// Parallel coordinates: an axis for each setting that differs, the return as the last.

const ROOM = {top: 44, bottom: 24, height: 320, axis: 110};
const MOST_AXES = 14;

// The position of a value on its axis, from 0 at the bottom to 1, and the labels.
function makeAxis(key, runs) {
  const values = distinct(runs.map((run) => field(run, key)).filter(known));
  if (numeric(values)) {
    const share = position(values, key);
    const marks = values.length <= 8 ? values : between(share);
    return {key, share, marks};
  }
  values.sort(inOrder);
  const share = (value) => (values.indexOf(value) + 0.5) / values.length;
  return {key, share, marks: values.slice(0, 20)};
}

function between({low, high, wide}) {
  const shares = [0, 0.25, 0.5, 0.75, 1];
  return shares.map((part) =>
    wide ? low * (high / low) ** part : low + part * (high - low),
  );
}

class Parallel {
  constructor(node, onRange, onHover, onPick) {
    Object.assign(this, {node, onRange, onHover, onPick});
    this.runs = RUNS.filter((run) => known(run.last));
    const keys = DATA.differing.filter((key) => key !== "seed").slice(0, MOST_AXES);
    this.useful = keys.length > 1 && this.runs.length > 1;
    if (!this.useful) return;
    this.axes = [...keys, "last"].map((key) => makeAxis(key, this.runs));
    this.returnScale = position(
      this.runs.map((run) => run.last),
      "last",
    );
    new ResizeObserver(() => this.build()).observe(node);
  }

  x(i) {
    return 60 + (i * (this.width - 130)) / (this.axes.length - 1);
  }

  y(share) {
    return ROOM.top + (1 - share) * (ROOM.height - ROOM.top - ROOM.bottom);
  }

  build() {
    const width = Math.max(this.node.clientWidth, ROOM.axis * this.axes.length);
    if (width === this.width) return;
    this.width = width;
    this.lines = this.runs.map((run) => this.line(run));
    const svg = shape("svg", {
      width,
      height: ROOM.height,
      role: "img",
      "aria-label": "The settings of each run and its last return",
    });
    svg.append(shape("g", {class: "lines"}, ...this.lines));
    svg.append(...this.axes.map((axis, i) => this.axis(axis, this.x(i))));
    this.node.replaceChildren(svg);
    this.show(new Set(visibleRuns()));
  }

  line(run) {
    const points = this.axes
      .map((axis, i) => [this.x(i), field(run, axis.key), axis])
      .filter(([, value]) => known(value))
      .map(
        ([x, value, axis]) => `${x.toFixed(1)},${this.y(axis.share(value)).toFixed(1)}`,
      );
    return shape(
      "polyline",
      {
        points: points.join(" "),
        stroke: blend(this.returnScale(run.last)),
        onpointerenter: () => this.onHover(run),
        onpointerleave: () => this.onHover(null),
        onclick: () => this.onPick([run]),
      },
      shape("title", {}, `${run.name}: ${shortNumber(run.last)}`),
    );
  }

  axis(axis, x) {
    const name = axis.key === "last" ? "last return" : axis.key;
    const [foot, head] = [this.y(0), this.y(1)];
    const words = axis.marks.map((value) =>
      shape("text", {x: x + 7, y: this.y(axis.share(value)) + 4}, cut(asText(value), 14)),
    );
    const brush = shape("rect", {class: "brush", x: x - 8, width: 16, y: 0, height: 0});
    const grip = shape("rect", {
      class: "grip",
      x: x - 18,
      width: 36,
      y: head - 8,
      height: foot - head + 16,
    });
    this.brushable(axis, grip, brush);
    return shape(
      "g",
      {class: "axis"},
      shape("line", {x1: x, x2: x, y1: foot, y2: head}),
      shape(
        "text",
        {x, y: 20, class: "head", "text-anchor": "middle"},
        cut(name, 16),
        shape("title", {}, name),
      ),
      ...words,
      brush,
      grip,
    );
  }

  brushable(axis, grip, brush) {
    const place = (event) => event.clientY - this.node.getBoundingClientRect().top;
    let from = null;
    grip.addEventListener("pointerdown", (event) => {
      from = place(event);
      grip.setPointerCapture(event.pointerId);
    });
    grip.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const [top, bottom] = [from, place(event)].sort((a, b) => a - b);
      brush.setAttribute("y", top);
      brush.setAttribute("height", bottom - top);
    });
    grip.addEventListener("pointerup", (event) => {
      const [top, bottom] = [from, place(event)].sort((a, b) => a - b);
      from = null;
      if (bottom - top < 4) {
        brush.setAttribute("height", 0);
        return this.onRange(axis.key, null);
      }
      const inside = (y) => y >= top && y <= bottom;
      return this.onRange(
        axis.key,
        (value) => known(value) && inside(this.y(axis.share(value))),
      );
    });
  }

  show(shown) {
    this.lines?.forEach((line, i) =>
      line.classList.toggle("out", !shown.has(this.runs[i])),
    );
    this.mark();
  }

  mark() {
    const anyMarked = view.picked.size || view.hovered;
    this.lines?.forEach((line, i) => {
      const run = this.runs[i];
      const highlighted = view.picked.has(run) || run === view.hovered;
      line.classList.toggle("highlighted", highlighted);
      line.classList.toggle("faint", Boolean(anyMarked) && !highlighted);
    });
  }
}

const cut = (text, length) =>
  text.length > length ? `${text.slice(0, length - 1)}…` : text;
