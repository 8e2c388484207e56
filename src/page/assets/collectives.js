// The collectives as a table, with a sum for each kind.

class Collectives {
  constructor(app, program) {
    Object.assign(this, { app, program });
    const rows = program.data.collectives.map(([i, kind, bytes, runs, devices]) => ({
      i,
      kind,
      bytes,
      runs,
      devices: devices || program.numDevices,
      total: bytes * runs,
    }));
    const columns = [
      {
        title: "kind",
        width: "minmax(84px, .6fr)",
        class: "more-extra",
        value: (row) => row.kind,
        cell: (row) => opcodeChip(row.kind),
      },
      {
        title: "name",
        width: "minmax(70px, 1.4fr)",
        value: (row) => program.instrName(row.i),
        cell: (row) => this.name(row),
      },
      {
        title: "devices",
        class: "more-extra",
        width: "54px",
        number: true,
        hint: "Devices in a group",
        value: (row) => row.devices,
        cell: (row) => formatCount(row.devices),
      },
      {
        title: "bytes",
        width: "70px",
        number: true,
        hint: "Bytes of the full array on one device",
        value: (row) => row.bytes,
        cell: (row) => formatBytes(row.bytes),
      },
      {
        title: "runs",
        width: "46px",
        number: true,
        hint: "Executions in one run of the module",
        value: (row) => row.runs,
        cell: (row) => formatCount(row.runs),
      },
      {
        title: "total",
        width: "72px",
        number: true,
        hint: "Bytes times runs",
        value: (row) => row.total,
        cell: (row) => formatBytes(row.total),
      },
      {
        title: "computation",
        width: "minmax(80px, 1fr)",
        class: "extra",
        value: (row) => program.computationOf(row.i).name,
        cell: (row) => program.computationOf(row.i).name,
      },
      {
        title: "op_name",
        width: "minmax(0, 1.6fr)",
        value: (row) => program.opName(row.i),
        cell: (row) => program.opName(row.i),
      },
    ];
    this.table = new Table(columns, {
      onselect: (row) => app.state.select(program, row.i, "collectives"),
      rowClass: (row) =>
        `${row.i === this.selected ? "selected " : ""}${app.pairs ? app.pairs.status(program.side, row.i) : ""}`,
    });
    this.table.setRows(rows);
    this.table.sortBy(5);
    this.element = h(
      "div.collectives",
      {},
      h("div.list-title", {}, app.pairs ? "" : h("b", {}, "Collectives"), this.summary(rows)),
      this.table.element,
    );
  }

  name({ i }) {
    const status = this.app.pairs?.status(this.program.side, i);
    return h(
      "span",
      {},
      status && h(`span.mark.${status}`, { title: status }, STATUS_MARKS[status]),
      this.program.instrName(i),
    );
  }

  /** Number and bytes of each kind. */
  summary(rows) {
    const kinds = new Map();
    for (const { kind, runs, total } of rows) {
      const sum = kinds.get(kind) ?? { runs: 0, total: 0 };
      kinds.set(kind, { runs: sum.runs + runs, total: sum.total + total });
    }
    const text = ([kind, { runs, total }]) =>
      h("span.sum", {}, opcodeChip(kind), ` ×${formatCount(runs)} · ${formatBytes(total)}`);
    return kinds.size ? [...kinds].sort((a, b) => b[1].total - a[1].total).map(text) : h("span.quiet", {}, "none");
  }

  show(computation, i) {
    this.selected = i;
    this.table.redraw();
    const row = this.table.rows.find((found) => found.i === i);
    if (row) this.table.reveal(row);
  }

  step(distance) {
    const row = this.table.step(
      this.table.rows.find((found) => found.i === this.selected),
      distance,
    );
    if (row) this.app.state.selectStep(this.program, row.i, "collectives");
  }
}
