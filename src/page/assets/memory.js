// Memory over one run, and the buffers in use under the cursor.

const CURVE_HEIGHT = 220;
const MARGIN = { left: 70, right: 12, top: 12, bottom: 24 };

class Memory {
  constructor(app, program) {
    Object.assign(this, { app, program, curve: program.data.memory });
    this.element = h("div.memory");
    if (!this.curve || !this.curve.bytes.length) {
      this.element.append(h("p.note.empty", {}, "This page was made without a memory curve."));
      return;
    }
    this.peak = this.curve.bytes.reduce((best, bytes, at) => (bytes > this.curve.bytes[best] ? at : best), 0);
    this.plot = h("div.plot", {
      tabindex: -1,
      onmousemove: (event) => this.hover(event),
      onclick: (event) => this.pick(event),
    });
    this.title = h("div.list-title");
    const columns = [
      { title: "buffer", width: "minmax(120px, 2fr)", value: ([name]) => name, cell: (row) => this.bufferName(row) },
      {
        title: "bytes",
        width: "90px",
        number: true,
        value: ([, bytes]) => bytes,
        cell: ([, bytes]) => formatBytes(bytes),
      },
      {
        title: "share",
        width: "minmax(60px, 1fr)",
        value: ([, bytes]) => bytes,
        cell: ([, bytes]) => bar(bytes / this.curve.bytes[this.at]),
      },
      {
        title: "from",
        width: "64px",
        number: true,
        value: ([, , first]) => first,
        cell: ([, , first]) => formatCount(first),
      },
      {
        title: "to",
        width: "64px",
        number: true,
        value: ([, , , last]) => last,
        cell: ([, , , last]) => formatCount(last),
      },
    ];
    this.table = new Table(columns, {
      onselect: (row) => this.selectBuffer(row),
      rowClass: (row) => (row === this.buffer ? "selected" : ""),
    });
    this.table.sortBy(1);
    this.element.append(this.title, this.plot, this.table.element);
    new ResizeObserver(() => this.draw()).observe(this.plot);
    this.moveTo(this.peak);
  }

  bufferName([name]) {
    const i = this.program.findAnywhere(name);
    return i === null ? name : instrLink(this.app, this.program, i, name);
  }

  selectBuffer(row) {
    this.buffer = this.buffer === row ? null : row;
    this.table.redraw();
    this.drawCursor();
  }

  x(at) {
    const last = Math.max(1, this.curve.bytes.length - 1);
    return MARGIN.left + (at / last) * (this.width - MARGIN.left - MARGIN.right);
  }

  y(bytes) {
    return (
      CURVE_HEIGHT -
      MARGIN.bottom -
      (bytes / (this.curve.bytes[this.peak] || 1)) * (CURVE_HEIGHT - MARGIN.top - MARGIN.bottom)
    );
  }

  /** The outline of the curve: of the points that share a pixel, the largest. */
  outline() {
    const points = [];
    for (const [at, bytes] of this.curve.bytes.entries()) {
      const x = Math.round(this.x(at));
      const last = points.at(-1);
      if (last && last[0] === x) last[1] = Math.max(last[1], bytes);
      else points.push([x, bytes]);
    }
    const steps = points.map(([x, bytes], at) => `${at ? `H${x}` : ""}V${this.y(bytes).toFixed(1)}`).join("");
    return `M${MARGIN.left},${this.y(0)}${steps}V${this.y(0)}Z`;
  }

  draw() {
    this.width = this.plot.clientWidth;
    if (!this.width) return;
    const drawing = svg("svg", { width: this.width, height: CURVE_HEIGHT });
    const most = this.curve.bytes[this.peak];
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const y = this.y(share * most);
      drawing.append(
        svg("line", { class: "grid", x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y, y2: y }),
        svg("text", { class: "axis", x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }, formatBytes(share * most)),
      );
    }
    this.band = svg("rect", { class: "band", y: MARGIN.top, height: CURVE_HEIGHT - MARGIN.top - MARGIN.bottom });
    this.line = svg("line", { class: "cursor", y1: MARGIN.top, y2: CURVE_HEIGHT - MARGIN.bottom });
    drawing.append(
      svg("path", { class: "curve", d: this.outline() }),
      this.band,
      this.line,
      svg("circle", { class: "peak", cx: this.x(this.peak), cy: this.y(most), r: 4 }),
      svg(
        "text",
        { class: "axis", x: this.width - MARGIN.right, y: CURVE_HEIGHT - 6, "text-anchor": "end" },
        `${plural(this.curve.bytes.length, "step")} of the schedule`,
      ),
    );
    this.plot.replaceChildren(drawing);
    this.drawCursor();
  }

  drawCursor() {
    if (!this.line) return;
    const x = this.x(this.at);
    this.line.setAttribute("x1", x);
    this.line.setAttribute("x2", x);
    const [, , first, last] = this.buffer ?? [0, 0, 0, -1];
    this.band.setAttribute("x", this.x(first));
    this.band.setAttribute("width", this.buffer ? Math.max(2, this.x(last + 1) - this.x(first)) : 0);
  }

  indexAt(event) {
    const share =
      (event.clientX - this.plot.getBoundingClientRect().left - MARGIN.left) /
      (this.width - MARGIN.left - MARGIN.right);
    return Math.round(Math.max(0, Math.min(1, share)) * (this.curve.bytes.length - 1));
  }

  hover(event) {
    if (!this.isPinned) this.moveTo(this.indexAt(event));
  }

  /** A click keeps the cursor where it is; another one frees it. */
  pick(event) {
    this.isPinned = !this.isPinned;
    this.moveTo(this.indexAt(event));
  }

  moveTo(at) {
    if (at === this.at) return;
    this.at = at;
    const { instructions, bytes, buffers } = this.curve;
    const used = buffers.filter(([, , first, last]) => first <= at && at <= last);
    const i = this.program.findAnywhere(instructions[at]);
    this.title.replaceChildren(
      h("b", {}, formatBytes(bytes[at])),
      h("span.quiet", {}, at === this.peak ? "the peak, at" : `step ${formatCount(at)}, at`),
      i === null ? h("code", {}, instructions[at]) : instrLink(this.app, this.program, i),
      h("span.quiet", {}, `${plural(used.length, "buffer")} in use`),
      h(
        "button.more",
        {
          onclick: () => {
            this.isPinned = true;
            this.moveTo(this.peak);
          },
        },
        `peak ${formatBytes(bytes[this.peak])}`,
      ),
    );
    this.table.setRows(used);
    this.drawCursor();
  }

  show() {
    if (this.plot) this.draw();
  }

  step(distance) {
    if (!this.plot) return;
    this.isPinned = true;
    this.moveTo(Math.max(0, Math.min(this.curve.bytes.length - 1, this.at + distance)));
  }
}
