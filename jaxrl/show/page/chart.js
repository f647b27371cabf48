// Curves on a canvas: hover to read, drag to zoom, double-click to reset.

const EDGE = {left: 62, right: 14, top: 12, bottom: 44};

function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++)
    found.push(i * step);
  return found;
}

function powers(low, high) {
  const found = [];
  for (let n = Math.ceil(low); n <= high; n++) found.push(n);
  return found.length > 1 ? found : ticks(low, high, 4);
}

class Chart {
  constructor(title, onPick, onHover) {
    Object.assign(this, {title, onPick, onHover, lines: [], zoom: null, drag: null});
    this.canvas = element("canvas", {role: "img", tabindex: 0});
    this.tip = element("div", {class: "tip", hidden: ""});
    this.reset = element(
      "button",
      {type: "button", class: "reset", hidden: "", onclick: () => this.zoomTo(null)},
      "Show all",
    );
    const head = element("h3", {}, title);
    this.node = element("figure", {}, head, this.reset, this.canvas, this.tip);
    const on = (name, act) => this.canvas.addEventListener(name, act);
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.release(event));
    on("pointerleave", () => this.leave());
    on("pointercancel", () => this.leave());
    on("dblclick", () => this.zoomTo(null));
    on("keydown", (event) => event.key === "Escape" && this.zoomTo(null));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  show(lines) {
    this.lines = lines;
    this.canvas.setAttribute(
      "aria-label",
      `${this.title}: ${label(view.y)} over ` +
        `${label(view.x)}, ${plural(lines.length, "curve")}`,
    );
    this.draw();
  }

  zoomTo(zoom) {
    this.zoom = zoom;
    this.reset.hidden = !zoom;
    this.leave();
    this.draw();
  }

  height(value) {
    return view.log ? Math.log10(value) : value;
  }

  // The range of x and y of all lines, with a margin above and below.
  extent() {
    const box = {x: [Infinity, -Infinity], y: [Infinity, -Infinity]};
    const widen = (side, value) => {
      if (value < side[0]) side[0] = value;
      if (value > side[1]) side[1] = value;
    };
    for (const {xs, ys, low, high} of this.lines) {
      for (const x of xs) widen(box.x, x);
      for (const y of [ys, low || [], high || []].flat()) {
        if (!view.log || y > 0) widen(box.y, this.height(y));
      }
    }
    if (box.x[0] > box.x[1] || box.y[0] > box.y[1]) return null;
    if (box.x[0] === box.x[1]) box.x = [box.x[0] - 1, box.x[1] + 1];
    const margin = (box.y[1] - box.y[0]) * 0.04 || Math.abs(box.y[0]) * 0.1 || 1;
    return {x: box.x, y: [box.y[0] - margin, box.y[1] + margin]};
  }

  // Between numbers and pixels.
  frame(box) {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const inner = {
      x: width - EDGE.left - EDGE.right,
      y: height - EDGE.top - EDGE.bottom,
    };
    const [spanX, spanY] = [box.x[1] - box.x[0], box.y[1] - box.y[0]];
    return {
      width,
      height,
      inner,
      x: (value) => EDGE.left + ((value - box.x[0]) / spanX) * inner.x,
      y: (value) => EDGE.top + (1 - (this.height(value) - box.y[0]) / spanY) * inner.y,
      backX: (pixel) => box.x[0] + ((pixel - EDGE.left) / inner.x) * spanX,
      backY: (pixel) => box.y[0] + (1 - (pixel - EDGE.top) / inner.y) * spanY,
    };
  }

  draw() {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const density = window.devicePixelRatio || 1;
    this.canvas.width = width * density;
    this.canvas.height = height * density;
    const pen = this.canvas.getContext("2d");
    pen.scale(density, density);
    const style = getComputedStyle(this.canvas);
    this.ink = {
      text: style.color,
      grid: style.getPropertyValue("--line"),
      font: style.fontFamily,
    };
    this.box = this.zoom || this.extent();
    if (!this.box) {
      pen.fillStyle = this.ink.text;
      pen.font = `13px ${this.ink.font}`;
      pen.fillText("No data: none of the shown runs has these values.", 16, 40);
      return;
    }
    this.scale = this.frame(this.box);
    this.drawAxes(pen);
    pen.save();
    pen.beginPath();
    pen.rect(EDGE.left, EDGE.top, this.scale.inner.x, this.scale.inner.y);
    pen.clip();
    for (const line of this.stacked()) this.drawLine(pen, line);
    if (this.near) this.drawPoint(pen);
    if (this.drag) this.drawDrag(pen);
    pen.restore();
  }

  // Highlighted lines are drawn last, on top.
  stacked() {
    const weight = (line) => this.emphasis(line) + (line === this.near?.line ? 1 : 0);
    return [...this.lines].sort((a, b) => weight(a) - weight(b));
  }

  emphasis(line) {
    if (line.runs.some((run) => run === view.hovered)) return 2;
    return line.runs.some((run) => view.picked.has(run)) ? 1 : 0;
  }

  drawAxes(pen) {
    const {scale, box, ink} = this;
    const [right, bottom] = [EDGE.left + scale.inner.x, EDGE.top + scale.inner.y];
    pen.font = `12px ${ink.font}`;
    pen.strokeStyle = ink.grid;
    pen.fillStyle = ink.text;
    pen.lineWidth = 1;
    const rule = (x0, y0, x1, y1) => {
      pen.beginPath();
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
      pen.stroke();
    };
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const rows = view.log ? powers(...box.y) : ticks(...box.y, scale.inner.y / 50);
    for (const value of rows) {
      const y = scale.y(view.log ? 10 ** value : value);
      rule(EDGE.left, y, right, y);
      pen.fillText(shortNumber(view.log ? 10 ** value : value), EDGE.left - 8, y);
    }
    pen.textBaseline = "top";
    pen.textAlign = "center";
    for (const value of ticks(...box.x, scale.inner.x / 80)) {
      rule(scale.x(value), bottom, scale.x(value), bottom + 4);
      pen.fillText(shortNumber(value), scale.x(value), bottom + 8);
    }
    pen.fillText(label(view.x), EDGE.left + scale.inner.x / 2, bottom + 27);
    pen.save();
    pen.translate(4, EDGE.top + scale.inner.y / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(label(view.y), 0, 0);
    pen.restore();
  }

  drawLine(pen, line) {
    const anyMarked = view.picked.size || view.hovered;
    const highlighted = this.emphasis(line) || line === this.near?.line;
    const many = this.lines.length > 30;
    pen.globalAlpha = highlighted ? 1 : anyMarked ? 0.18 : many ? 0.6 : 0.95;
    pen.strokeStyle = pen.fillStyle = line.colour;
    pen.lineWidth = highlighted ? 2.5 : many ? 1.1 : 1.7;
    pen.setLineDash(line.dash);
    this.path(pen, line.xs, line.ys);
    if (line.xs.length === 1)
      pen.fillRect(this.scale.x(line.xs[0]) - 3, this.scale.y(line.ys[0]) - 3, 6, 6);
    pen.stroke();
    pen.setLineDash([]);
    if (line.low) {
      pen.globalAlpha *= 0.16;
      this.path(pen, line.xs, line.high);
      for (let i = line.xs.length - 1; i >= 0; i--)
        pen.lineTo(this.scale.x(line.xs[i]), this.scale.y(line.low[i]));
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  path(pen, xs, ys) {
    pen.beginPath();
    for (let i = 0; i < xs.length; i++) {
      const y = this.scale.y(ys[i]);
      if (Number.isFinite(y)) pen.lineTo(this.scale.x(xs[i]), y);
    }
  }

  drawPoint(pen) {
    const {line, i} = this.near;
    pen.fillStyle = line.colour;
    pen.beginPath();
    pen.arc(this.scale.x(line.xs[i]), this.scale.y(line.ys[i]), 4.5, 0, 2 * Math.PI);
    pen.fill();
  }

  drawDrag(pen) {
    const {from, to, flat} = this.drag;
    const [top, bottom] = flat
      ? [EDGE.top, EDGE.top + this.scale.inner.y]
      : [from.y, to.y];
    pen.globalAlpha = 0.15;
    pen.fillStyle = this.ink.text;
    pen.fillRect(from.x, top, to.x - from.x, bottom - top);
    pen.globalAlpha = 1;
  }

  // Pointer

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  }

  press(event) {
    if (!this.box || event.button) return;
    const from = this.place(event);
    this.drag = {from, to: from, flat: true};
    if (event.pointerType === "mouse") this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (!this.box) return;
    const to = this.place(event);
    if (this.drag) {
      // A horizontal drag selects a range of x, any other one a rectangle.
      Object.assign(this.drag, {to, flat: Math.abs(to.y - this.drag.from.y) < 24});
    }
    this.near = this.nearest(to);
    this.onHover(
      this.near && this.near.line.runs.length === 1 ? this.near.line.runs[0] : null,
    );
    this.showTip();
    this.draw();
  }

  release(event) {
    const drag = this.drag;
    this.drag = null;
    if (!drag || !this.box) return;
    if (Math.abs(drag.to.x - drag.from.x) > 8) return this.zoomTo(this.chosen(drag));
    this.near = this.nearest(this.place(event));
    if (this.near) this.onPick(this.near.line.runs);
    this.showTip();
  }

  chosen({from, to, flat}) {
    const order = (a, b) => [Math.min(a, b), Math.max(a, b)];
    const x = order(this.scale.backX(from.x), this.scale.backX(to.x));
    return {
      x,
      y: flat ? this.box.y : order(this.scale.backY(from.y), this.scale.backY(to.y)),
    };
  }

  leave() {
    this.near = this.drag = null;
    this.tip.hidden = true;
    this.onHover(null);
    this.draw();
  }

  nearest({x, y}) {
    let [found, least] = [null, 30 ** 2];
    for (const line of this.lines) {
      for (let i = 0; i < line.xs.length; i++) {
        const far =
          (this.scale.x(line.xs[i]) - x) ** 2 + (this.scale.y(line.ys[i]) - y) ** 2;
        if (far < least) [found, least] = [{line, i}, far];
      }
    }
    return found;
  }

  showTip() {
    this.tip.hidden = !this.near;
    if (!this.near) return;
    const {line, i} = this.near;
    const row = (name, value) =>
      element("div", {}, `${name}: `, element("b", {}, value));
    const rows = [
      row(label(view.y), shortNumber(line.ys[i])),
      row(label(view.x), shortNumber(line.xs[i])),
    ];
    if (line.low && line.runs.length > 1)
      rows.push(
        row(
          plural(line.runs.length, "run"),
          `${shortNumber(line.low[i])} to ${shortNumber(line.high[i])}`,
        ),
      );
    for (const key of line.runs.length === 1 ? DATA.differing.slice(0, 8) : [])
      rows.push(row(key, asText(field(line.runs[0], key))));
    this.tip.replaceChildren(element("strong", {}, line.label), ...rows);
    const x = this.scale.x(line.xs[i]);
    const left = x > this.scale.width / 2 ? x - this.tip.offsetWidth - 14 : x + 14;
    this.tip.style.left = `${Math.max(left, 0)}px`;
    this.tip.style.top = `${this.canvas.offsetTop + Math.max(0, this.scale.y(line.ys[i]) - 20)}px`;
  }
}
