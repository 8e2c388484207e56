// The graph around an instruction: operands of operands above it, users of users below it.

const MAX_NODES = 90;
const MAX_NEIGHBORS = 8;
const NODE_HEIGHT = 40;

class Graph {
  constructor(app, program) {
    Object.assign(this, { app, program, zoom: null });
    this.label = h("span.steps");
    this.note = h("span.quiet");
    this.canvas = h("div.canvas", { tabindex: -1 });
    const step = (distance) => this.setSteps(app.state.current.k + distance);
    this.element = h(
      "div.graph",
      {},
      h(
        "div.graph-head",
        {},
        h("b", {}, "Graph"),
        h("button.fewer", { title: "Fewer steps ([)", onclick: () => step(-1) }, "−"),
        this.label,
        h("button.further", { title: "More steps (])", onclick: () => step(1) }, "+"),
        this.note,
        h("span.space"),
        h("button", { title: "Smaller", onclick: () => this.setZoom(this.scale / 1.25) }, "A−"),
        h("button", { title: "Larger", onclick: () => this.setZoom(this.scale * 1.25) }, "A+"),
      ),
      this.canvas,
    );
    this.makeDraggable();
  }

  setSteps(k) {
    this.app.state.step({ k: Math.max(0, Math.min(9, k)) });
  }

  setZoom(zoom) {
    this.zoom = Math.max(0.3, Math.min(2, zoom));
    this.fit();
  }

  /** Scales the drawing as chosen, or so that it fits, as long as it can be read. */
  fit() {
    const drawing = this.canvas.firstElementChild;
    const { width, height } = drawing?.dataset ?? {};
    if (!width) return;
    this.scale =
      this.zoom ?? Math.max(0.8, Math.min(1, this.canvas.clientWidth / width, this.canvas.clientHeight / height));
    drawing.setAttribute("width", width * this.scale);
    drawing.setAttribute("height", height * this.scale);
  }

  makeDraggable() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.target.closest(".node")) return;
      const start = { x: event.clientX, y: event.clientY, left: canvas.scrollLeft, top: canvas.scrollTop };
      canvas.setPointerCapture(event.pointerId);
      const move = (next) => {
        canvas.scrollLeft = start.left - (next.clientX - start.x);
        canvas.scrollTop = start.top - (next.clientY - start.y);
      };
      canvas.addEventListener("pointermove", move);
      canvas.addEventListener("pointerup", () => canvas.removeEventListener("pointermove", move), { once: true });
    });
  }

  show(i, status) {
    const { k } = this.app.state.current;
    this.label.textContent = plural(k, "step");
    // A panel that is out of sight is drawn when it comes into sight.
    this.wanted = [i, status];
    if (!this.canvas.offsetParent) return;
    if (i === null) {
      this.note.textContent = "";
      this.canvas.replaceChildren(
        status ? noCounterpart(status) : h("p.note.empty", {}, "Select an instruction to see its operands and users."),
      );
      return;
    }
    const { nodes, edges, hidden, isCut } = neighborhood(this.program, i, k);
    this.note.textContent = isCut ? `the nearest ${MAX_NODES} instructions` : plural(nodes.length, "instruction");
    this.draw(i, nodes, edges, hidden);
  }

  draw(center, ids, edges, hidden) {
    const { program, app } = this;
    const nodes = ids.map((id) => {
      const longest = Math.max(program.instrName(id).length + 1, shortened(program, id).length);
      return { id, width: Math.min(230, Math.max(84, 14 + 6.4 * longest)), height: NODE_HEIGHT };
    });
    const { places, paths, width, height } = layeredLayout(nodes, edges);
    const margin = 26;
    const drawing = svg("svg", {
      viewBox: `${-margin} ${-margin} ${width + 2 * margin} ${height + 2 * margin}`,
      "data-width": width + 2 * margin,
      "data-height": height + 2 * margin,
    });
    for (const [at, points] of paths.entries()) {
      const isNear = edges[at].includes(center);
      drawing.append(svg("path", { class: isNear ? "edge near" : "edge", d: curve(points) }));
    }
    for (const { id, width: nodeWidth } of nodes) {
      const { x, y } = places.get(id);
      const status = app.pairs?.status(program.side, id) ?? "";
      const node = svg(
        "g",
        {
          class: `node ${category(program.opcode(id))} ${status} ${id === center ? "center" : ""}`,
          transform: `translate(${x - nodeWidth / 2} ${y})`,
          onclick: () => app.state.select(program, id),
        },
        svg(
          "title",
          {},
          `${program.instrName(id)} = ${program.shape(id)} ${program.opcode(id)}\n${program.opName(id)}`,
        ),
        svg("rect", { width: nodeWidth, height: NODE_HEIGHT, rx: 5 }),
        svg("text", { x: 7, y: 16, class: "name" }, clipped(program.instrName(id), nodeWidth)),
        svg("text", { x: 7, y: 31, class: "what" }, clipped(shortened(program, id), nodeWidth)),
      );
      drawing.append(node);
      const { above, below } = hidden.get(id);
      const side = x + nodeWidth / 2;
      if (above) drawing.append(svg("text", { class: "more", x: side, y: y - 4 }, `+${plural(above, "operand")}`));
      if (below)
        drawing.append(svg("text", { class: "more", x: side, y: y + NODE_HEIGHT + 11 }, `+${plural(below, "user")}`));
    }
    this.canvas.replaceChildren(drawing);
    this.fit();
    const { x, y } = places.get(center);
    this.canvas.scrollLeft = (x + margin) * this.scale - this.canvas.clientWidth / 2;
    this.canvas.scrollTop = (y + margin + NODE_HEIGHT / 2) * this.scale - this.canvas.clientHeight / 2;
  }
}

/** Opcode and shape of a node. */
function shortened(program, i) {
  const elements = tupleElements(program.shape(i));
  return `${program.opcode(i)} ${elements && elements.length > 2 ? `(${elements.length} results)` : shortShape(program.shape(i))}`;
}

const clipped = (text, width) => {
  const most = Math.floor((width - 12) / 6.3);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

/** A smooth curve through points, vertical at each of them. */
function curve(points) {
  let path = `M${points[0]}`;
  for (let at = 1; at < points.length; at += 1) {
    const [[x, y], [nextX, nextY]] = [points[at - 1], points[at]];
    const middle = (y + nextY) / 2;
    path += `C${x},${middle} ${nextX},${middle} ${nextX},${nextY}`;
  }
  return path;
}

/**
 * What an instruction depends on in at most `k` steps, and what depends on it: `{nodes, edges, hidden, isCut}`. `hidden` has the
 * number of neighbors of each node that are not drawn.
 */
function neighborhood(program, center, k) {
  const nodes = new Set([center]);
  let isCut = false;
  const walk = (neighbors, most) => {
    let level = [center];
    for (let step = 0; step < k; step += 1) {
      const next = [];
      for (const node of level) {
        for (const neighbor of [...new Set(neighbors(node))].slice(0, MAX_NEIGHBORS)) {
          if (nodes.has(neighbor)) continue;
          if (nodes.size >= most) {
            isCut = true;
            break;
          }
          nodes.add(neighbor);
          next.push(neighbor);
        }
      }
      level = next;
    }
  };
  // The operands leave room for users.
  walk((node) => program.operands(node), MAX_NODES / 2);
  walk((node) => program.usersOf(node), MAX_NODES);
  const edges = [];
  const hidden = new Map();
  for (const node of nodes) {
    const operands = new Set(program.operands(node));
    for (const operand of operands) if (nodes.has(operand)) edges.push([operand, node]);
    const outside = (list) => [...list].filter((other) => !nodes.has(other)).length;
    hidden.set(node, { above: outside(operands), below: outside(program.usersOf(node)) });
  }
  return { nodes: [...nodes], edges, hidden, isCut };
}
