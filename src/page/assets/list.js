// The instructions of a computation.

/** A link to an instruction. */
function instrLink(app, program, i, label) {
  const hint = `${program.opcode(i)} ${program.shape(i)}`;
  return h(
    "button.link",
    {
      title: hint,
      onclick: (event) => {
        event.stopPropagation();
        app.state.select(program, i);
      },
    },
    label ?? `%${program.instrName(i)}`,
  );
}

function computationLink(app, program, computation) {
  return h(
    "button.link.computation",
    { onclick: () => app.state.selectComputation(program, computation) },
    computation.name,
  );
}

const opcodeChip = (opcode) => h(`span.opcode.${category(opcode)}`, { title: opcode }, opcode);

class InstructionList {
  constructor(app, program) {
    Object.assign(this, { app, program });
    const columns = [
      {
        title: "#",
        width: "34px",
        number: true,
        class: "quiet",
        hint: "Sort by order",
        value: (i) => i,
        cell: (i) => String(i - this.computation.first),
      },
      { title: "name", width: "minmax(76px, 1.5fr)", value: (i) => program.instrName(i), cell: (i) => this.name(i) },
      {
        title: "opcode",
        width: "minmax(56px, .8fr)",
        value: (i) => program.opcode(i),
        cell: (i) => opcodeChip(program.opcode(i)),
      },
      {
        title: "shape",
        width: "minmax(60px, 1.5fr)",
        class: "code",
        value: (i) => program.shape(i),
        cell: (i) => h("span", { title: program.shape(i) }, shortShape(program.shape(i))),
      },
      {
        title: "FLOPs",
        width: "76px",
        number: true,
        class: "more-extra",
        hint: "FLOPs of one run, with called computations",
        value: (i) => program.flops(i),
        cell: (i) => (program.flops(i) ? formatFlops(program.flops(i)) : ""),
      },
      {
        title: "bytes",
        width: "66px",
        number: true,
        class: "more-extra",
        hint: "Bytes of the results of one run, with called computations",
        value: (i) => program.bytesWithCalls(i),
        cell: (i) => (program.bytesWithCalls(i) ? formatBytes(program.bytesWithCalls(i)) : ""),
      },
    ];
    this.table = new Table(columns, {
      onselect: (i) => app.state.select(program, i),
      rowClass: (i) => `${i === this.selected ? "selected " : ""}${app.pairs ? app.pairs.status(program.side, i) : ""}`,
    });
    this.title = h("div.list-title");
    this.element = h("div.list", {}, this.title, this.table.element);
  }

  name(i) {
    const { app, program } = this;
    const status = app.pairs?.status(program.side, i);
    const root =
      i === this.computation.root ? h("span.root", { title: "the result of the computation" }, "ROOT") : null;
    return h(
      "span",
      { title: program.opName(i) || program.instrName(i) },
      app.pairs && h(`span.mark.${status}`, { title: status }, STATUS_MARKS[status]),
      program.instrName(i),
      root,
    );
  }

  /** Shows a computation with an instruction selected; without one, with the instruction `near` in sight. */
  show(computation, i, near = null) {
    const isOther = this.computation !== computation || this.onlyChanges !== this.app.onlyChanges;
    this.selected = i;
    if (isOther) {
      this.computation = computation;
      this.onlyChanges = this.app.onlyChanges;
      this.table.setRows(this.rows(computation));
      this.drawTitle();
      if (i === null) this.table.body.scrollTop = 0;
    }
    this.table.redraw();
    if (i !== null || near !== null) this.table.reveal(i ?? near);
  }

  rows(computation) {
    const rows = Array.from({ length: computation.size }, (_, at) => computation.first + at);
    const { pairs } = this.app;
    return pairs && this.onlyChanges ? rows.filter((i) => pairs.status(this.program.side, i) !== "same") : rows;
  }

  drawTitle() {
    const { app, program, computation } = this;
    const callers = computation.callers.slice(0, 3).map((call) => [" ", instrLink(app, program, call.instr)]);
    const more = computation.callers.length - callers.length;
    const runs =
      computation.executions === 0
        ? "applied to elements"
        : computation.executions === 1
          ? "runs once"
          : `runs ×${formatCount(computation.executions)}`;
    this.title.replaceChildren(
      h(
        "b",
        { title: computation.name },
        computation === program.entry ? `ENTRY ${computation.name}` : computation.name,
      ),
      h("span.quiet", {}, `${plural(computation.size, "instruction")} · ${runs}`),
      callers.length
        ? h("span.quiet.callers", {}, "called by", callers, more > 0 && ` and ${plural(more, "other")}`)
        : "",
    );
  }

  /** Selects the row so many places below the selected one. */
  step(distance) {
    const next = this.table.step(this.selected, distance);
    if (next !== undefined) this.app.state.selectStep(this.program, next);
  }
}
