// The tree of computations by calls from the entry, with bars for their sizes.

const METRICS = {
  instructions: { of: (program, node) => program.instructionCount(node), format: (value) => formatCount(value) },
  FLOPs: { of: (program, node) => node.executions * node.flops, format: formatFlops },
  bytes: { of: (program, node) => node.executions * node.bytes, format: formatBytes },
};

/** Attributes of calls whose callees run on whole values, in the order of the program. */
const isControl = (call) => call.runs > 0 && !call.callee.isFused;

class Outline {
  constructor(app, program) {
    Object.assign(this, { app, program, metric: "instructions", rows: [] });
    this.open = new Set(["entry"]);
    this.body = h("div.outline-body", { tabindex: -1 });
    const choice = Object.keys(METRICS).map((metric) => h("option", { value: metric }, metric));
    this.select = h(
      "select",
      { title: "What the bars show, for one run of the module", onchange: () => this.setMetric(this.select.value) },
      choice,
    );
    this.element = h(
      "div.outline",
      {},
      h("div.outline-head", {}, h("b", {}, app.pairs ? program.title : "Computations"), this.select),
      this.body,
    );
    this.list = new VirtualList(this.body, ROW_HEIGHT, (index) => this.row(this.rows[index]));
    this.openControl({ key: "entry", computation: program.entry }, 0);
    this.arrange();
  }

  setMetric(metric) {
    this.metric = metric;
    this.arrange();
  }

  /** Opens loops and calls down to a depth; groups of fusions stay closed. */
  openControl(node, depth) {
    this.open.add(node.key);
    if (depth > 4) return;
    for (const child of this.children(node))
      if (child.call && isControl(child.call)) this.openControl(child, depth + 1);
  }

  /** The nodes below one: callees that control runs, then groups of fused and of applied computations. */
  children(node) {
    if (node.members) return node.members;
    const seen = new Set();
    const children = [];
    const groups = { fusion: [], "applied computation": [] };
    for (const call of node.computation.calls) {
      if (seen.has(call.callee)) continue;
      seen.add(call.callee);
      const child = { key: `${node.key}/${call.callee.index}`, computation: call.callee, call };
      if (isControl(call)) children.push(child);
      else groups[call.runs > 0 ? "fusion" : "applied computation"].push(child);
    }
    for (const [name, members] of Object.entries(groups)) {
      if (members.length) children.push({ key: `${node.key}/${name}`, label: plural(members.length, name), members });
    }
    return children;
  }

  value(node) {
    const { of } = METRICS[this.metric];
    if (!node.members) return of(this.program, node.computation);
    return node.members.reduce((sum, member) => sum + of(this.program, member.computation), 0);
  }

  /** The rows of all open nodes; members of a group from the largest down. */
  arrange() {
    const rows = [];
    const visit = (node, depth) => {
      const children = this.children(node);
      rows.push({ node, depth, hasChildren: children.length > 0 });
      if (!this.open.has(node.key)) return;
      const ordered = node.members ? children.slice().sort((a, b) => this.value(b) - this.value(a)) : children;
      ordered.forEach((child) => visit(child, depth + 1));
    };
    visit({ key: "entry", computation: this.program.entry }, 0);
    this.rows = rows;
    this.most = this.value(rows[0].node) || 1;
    this.list.setCount(rows.length);
  }

  toggle(node) {
    if (!this.open.delete(node.key)) this.open.add(node.key);
    this.arrange();
  }

  row({ node, depth, hasChildren }) {
    const { app, program } = this;
    const value = this.value(node);
    const { computation, call } = node;
    const isOpen = this.open.has(node.key);
    const twist = h(
      "button.twist",
      {
        "aria-label": isOpen ? "Close" : "Open",
        onclick: (event) => {
          event.stopPropagation();
          this.toggle(node);
        },
      },
      hasChildren ? (isOpen ? "▾" : "▸") : "",
    );
    const times = call && call.runs > 1 ? h("span.times", { title: "iterations" }, `×${formatCount(call.runs)}`) : null;
    const role =
      call && isControl(call) && call.attr !== "calls" && call.attr !== "to_apply"
        ? h("span.role", {}, call.attr.replace("_computation", ""))
        : null;
    const marks = computation && app.pairs ? this.marks(computation) : null;
    const selected = computation && computation === this.selected ? ".selected" : "";
    const title = computation
      ? `${computation.name}: ${plural(computation.size, "instruction")}, runs ${formatCount(computation.executions)} times`
      : "";
    return h(
      `div.row.tree-row${selected}${node.members ? ".group" : ""}`,
      {
        title,
        style: `padding-left:${depth * 11 + 4}px`,
        onclick: () => (computation ? app.state.selectComputation(program, computation) : this.toggle(node)),
      },
      twist,
      role,
      h("span.tree-name", {}, node.label ?? computation.name),
      marks,
      times,
      h("span.tree-value", {}, value ? METRICS[this.metric].format(value) : ""),
      bar(value / this.most),
    );
  }

  marks(computation) {
    const { changed, removed, added } = this.app.pairs.differences(this.program.side, computation);
    const parts = [
      ["changed", changed],
      ["removed", removed],
      ["added", added],
    ].filter(([, count]) => count);
    return parts.map(([status, count]) =>
      h(`span.mark.${status}`, { title: `${count} ${status}` }, `${STATUS_MARKS[status]}${count}`),
    );
  }

  /** Marks a computation, and opens the way to it. */
  show(computation) {
    if (this.selected === computation) return;
    this.selected = computation;
    if (!this.rows.some((row) => row.node.computation === computation)) this.openPath(computation);
    this.arrange();
    this.list.reveal(this.rows.findIndex((row) => row.node.computation === computation));
  }

  openPath(computation) {
    const path = [computation];
    while (path[0] !== this.program.entry) {
      const call = path[0].callers.find((found) => !path.includes(found.caller));
      if (!call) return;
      path.unshift(call.caller);
    }
    let node = { key: "entry", computation: this.program.entry };
    for (const next of path.slice(1)) {
      this.open.add(node.key);
      const children = this.children(node);
      const direct = children.find((child) => child.computation === next);
      const group = children.find((child) => child.members?.some((member) => member.computation === next));
      if (!direct && group) this.open.add(group.key);
      node = direct ?? group.members.find((member) => member.computation === next);
    }
  }
}
