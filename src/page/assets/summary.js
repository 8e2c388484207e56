// The module: sizes, opcodes, attributes.

class Summary {
  constructor(app, program) {
    const { data } = program;
    const [products, elementwise, transcendentals] = data.flops;
    const sizes = [
      ["name", program.name],
      ["file", data.file],
      ["order", data.scheduled ? "a schedule" : "not a schedule"],
      ["computations", formatCount(program.computations.length)],
      ["instructions", formatCount(program.rows.length)],
      ["devices", formatCount(program.numDevices)],
      ["matrix products", formatFlops(products)],
      ["elementwise", formatFlops(elementwise)],
      ["functions", `${formatCount(transcendentals)} evaluations`],
      ["bytes of results", formatBytes(program.entry.bytes)],
    ];
    if (data.unknown_loops.length) sizes.push(["loops counted once", data.unknown_loops.join(", ")]);
    const attrs = program
      .moduleAttrs()
      .map(({ name, text, omitted }) => [name, [attributeValue(text), omittedNote(omitted)]]);
    this.element = h(
      "div.summary",
      {},
      h("section", {}, h("h3", {}, "Module"), properties(sizes.filter(([, value]) => value))),
      app.pairs ? this.differences(app, program) : "",
      h("section", {}, h("h3", {}, "Opcodes"), this.opcodes(app, program)),
      attrs.length ? h("section", {}, h("h3", {}, "Attributes"), properties(attrs)) : "",
    );
  }

  differences(app, program) {
    const counts = new Map();
    for (let i = 0; i < program.rows.length; i += 1) {
      const status = app.pairs.status(program.side, i);
      counts.set(status, (counts.get(status) || 0) + 1);
    }
    return h(
      "section",
      {},
      h("h3", {}, "Compared"),
      properties([...counts].map(([status, count]) => [h(`span.mark.${status}`, {}, status), formatCount(count)])),
    );
  }

  /** Numbers of instructions by opcode, from the most frequent down. */
  opcodes(app, program) {
    const counts = new Map();
    for (let i = 0; i < program.rows.length; i += 1) {
      const opcode = program.opcode(i);
      counts.set(opcode, (counts.get(opcode) || 0) + 1);
    }
    const sorted = [...counts].sort((a, b) => b[1] - a[1]);
    const most = sorted[0]?.[1] ?? 1;
    return h(
      "div.histogram",
      {},
      sorted.map(([opcode, count]) =>
        h(
          "button.opcode-row",
          { title: `Search for ${opcode}`, onclick: () => app.search.open(`op:${opcode}`) },
          opcodeChip(opcode),
          h("span.number", {}, formatCount(count)),
          bar(count / most),
        ),
      ),
    );
  }

  show() {}

  step() {}
}
