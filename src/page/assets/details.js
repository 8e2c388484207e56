// Everything about one instruction.

const MAX_LINKS = 24;

class Details {
  constructor(app, program) {
    Object.assign(this, { app, program });
    this.element = h("div.details", { tabindex: -1 });
  }

  show(computation, i) {
    this.element.scrollTop = 0;
    if (i === null) this.element.replaceChildren(...this.computation(computation));
    else this.element.replaceChildren(...this.instruction(computation, i).filter(Boolean));
  }

  /** Without a counterpart there is nothing to select. */
  showNone(status) {
    this.element.replaceChildren(noCounterpart(status));
  }

  computation(computation) {
    const { program } = this;
    const inAll = (value, format) =>
      computation.executions === 1
        ? format(value)
        : `${format(value)} a run, ${format(value * computation.executions)} in all`;
    const sizes = [
      [
        "instructions",
        `${formatCount(computation.size)} here, ${formatCount(program.instructionCount(computation))} with callees`,
      ],
      ["executions", formatCount(computation.executions)],
      ["FLOPs", inAll(computation.flops, formatFlops)],
      ["bytes of results", inAll(computation.bytes, formatBytes)],
    ];
    const parameters = this.instrsOf(computation).filter((i) => program.opcode(i) === "parameter");
    return [
      h("h2", {}, computation.name),
      properties(sizes),
      this.section(
        "Called by",
        computation.callers.map((call) => [call.instr, call.attr]),
      ),
      this.section("Result", [[computation.root, ""]]),
      this.section(
        "Parameters",
        parameters.map((i) => [i, program.payload(i).text]),
      ),
    ].filter(Boolean);
  }

  instrsOf(computation) {
    return Array.from({ length: computation.size }, (_, at) => computation.first + at);
  }

  instruction(computation, i) {
    const { app, program } = this;
    const status = app.pairs?.status(program.side, i);
    const calls = program.calls(i);
    return [
      h(
        "h2",
        {},
        this.copyButton(i),
        `%${program.instrName(i)}`,
        status && status !== "same" && h(`span.mark.${status}`, {}, status),
      ),
      h(
        "p.subtitle",
        {},
        opcodeChip(program.opcode(i)),
        " in ",
        computationLink(app, program, computation),
        i === computation.root && h("span.root", {}, "ROOT"),
      ),
      status === "changed" && this.change(i),
      this.shape(i),
      this.payload(i),
      this.section(
        "Operands",
        program.operands(i).map((operand, at) => [operand, String(at)]),
      ),
      this.section(
        "Users",
        program.usersOf(i).map((user) => [user, this.positions(i, user)]),
      ),
      calls.length > 0 &&
        h(
          "section",
          {},
          h("h3", {}, "Calls"),
          calls.map((call) =>
            h(
              "div.line",
              {},
              h("span.quiet", {}, call.attr),
              " ",
              computationLink(app, program, call.callee),
              call.runs > 1 && h("span.times", {}, `×${formatCount(call.runs)}`),
            ),
          ),
        ),
      this.arguments(computation, i),
      this.section(
        "Control predecessors",
        program.predecessors(i).map((other) => [other, ""]),
      ),
      this.shardings(i),
      this.groups(i),
      this.source(i),
      this.attributes(i),
    ];
  }

  copyButton(i) {
    const { text, omitted } = this.program.hlo(i);
    const button = h(
      "button.copy",
      {
        title: omitted
          ? `HLO text without ${plural(omitted, "character")} that this page does not have`
          : "Copy as HLO text",
        onclick: async () => {
          await navigator.clipboard.writeText(text);
          button.textContent = "copied";
        },
      },
      "copy HLO",
    );
    return button;
  }

  /** At which positions a user has an instruction, or at how many. */
  positions(i, user) {
    const found = this.program.operands(user).flatMap((operand, at) => (operand === i ? [at] : []));
    return found.length > 2 ? `×${found.length}` : found.join(",");
  }

  shape(i) {
    const { program } = this;
    const text = program.shape(i);
    const elements = tupleElements(text);
    const flops = program.flops(i);
    const sizes = [formatBytes(program.bytes(i)), flops > 0 && `${formatFlops(flops)} a run`]
      .filter(Boolean)
      .join(" · ");
    if (elements) {
      const rows = elements.map((element, at) =>
        h("div.line", {}, h("span.quiet", {}, String(at)), " ", h("code", {}, element)),
      );
      return h(
        "section",
        {},
        h("h3", {}, "Shape"),
        h("div.quiet", {}, `tuple of ${elements.length} · ${sizes}`),
        foldable(rows),
      );
    }
    const array = parseArray(text);
    return h(
      "section",
      {},
      h("h3", {}, "Shape"),
      h("code.shape", {}, text),
      h("div.quiet", {}, sizes),
      array?.layout && h("div.quiet", {}, "layout: ", describeLayout(array)),
    );
  }

  /** What differs from the counterpart. */
  change(i) {
    const { app, program } = this;
    const other = app.programs[1 - program.side];
    const partner = app.pairs.counterpart(program.side, i);
    const lines = [];
    const compare = (name, mine, theirs) =>
      mine !== theirs &&
      lines.push(
        h(
          "div.line",
          {},
          h("span.quiet", {}, name),
          " ",
          h("code", {}, mine || "none"),
          h("span.quiet", {}, " here, "),
          h("code", {}, theirs || "none"),
          h("span.quiet", {}, " there"),
        ),
      );
    compare("opcode", program.opcode(i), other.opcode(partner));
    compare("shape", program.shape(i), other.shape(partner));
    compare("payload", program.payload(i).text, other.payload(partner).text);
    const names = new Set([...program.attrs(i), ...other.attrs(partner)].map((attr) => attr.name));
    for (const name of names) compare(name, program.attr(i, name) ?? "", other.attr(partner, name) ?? "");
    const operands = program.operands(i).map((operand) => app.pairs.counterpart(program.side, operand));
    if (
      operands.length !== other.operands(partner).length ||
      operands.some((operand, at) => operand !== other.operands(partner)[at])
    ) {
      lines.push(h("div.line.quiet", {}, "the operands are not counterparts of each other"));
    }
    return h("section", {}, h("h3", {}, "Changes"), lines);
  }

  payload(i) {
    const { text, omitted } = this.program.payload(i);
    if (!text) return null;
    const title = this.program.opcode(i) === "parameter" ? "Parameter number" : "Literal";
    return h("section", {}, h("h3", {}, title), h("pre", {}, text), omittedNote(omitted));
  }

  /** A list of instructions with a note each. */
  section(title, entries) {
    if (!entries.length) return null;
    const { app, program } = this;
    const lines = entries.map(([i, note]) =>
      h(
        "div.line.instr",
        {},
        h("span.quiet.position", { title: note }, note),
        instrLink(app, program, i),
        opcodeChip(program.opcode(i)),
        h("code.quiet", { title: program.shape(i) }, shortShape(program.shape(i))),
      ),
    );
    return h("section", {}, h("h3", {}, title, h("span.quiet", {}, ` ${entries.length}`)), foldable(lines));
  }

  /** What the callers pass for a parameter. */
  arguments(computation, i) {
    const { program } = this;
    if (program.opcode(i) !== "parameter") return null;
    const position = Number(program.payload(i).text);
    const passed = computation.callers.map((call) => {
      const operands = program.operands(call.instr);
      // The callees of a conditional take one operand each, after the predicate or the index.
      const branch = program.calls(call.instr).indexOf(call);
      const at = program.opcode(call.instr) === "conditional" ? branch + 1 : position;
      return operands[at] === undefined
        ? [call.instr, "from"]
        : [operands[at], `from ${program.instrName(call.instr)}`];
    });
    return this.section("Passed", passed);
  }

  shardings(i) {
    const { program } = this;
    const shardings = shardingsOf(program, i);
    if (!shardings.length) return null;
    const elements = tupleElements(program.shape(i)) ?? [program.shape(i)];
    // After partitioning, a parameter has the shape of its shard; annotations of other instructions are older than their shapes.
    const isPartitioned = program.data.scheduled;
    const isKept = isPartitioned && program.opcode(i) !== "parameter";
    const array = (at) => (isKept ? null : parseArray(elements[at] ?? ""));
    const note = isKept
      ? "as annotated before partitioning"
      : isPartitioned
        ? "the shape above is that of one shard"
        : "";
    const drawn = shardings.map((sharding, at) => drawSharding(sharding, array(at), isPartitioned, note));
    return h("section", {}, h("h3", {}, "Sharding"), foldable(drawn, 4));
  }

  groups(i) {
    const { program } = this;
    const text = program.attr(i, "replica_groups");
    const pairs = program.attr(i, "source_target_pairs");
    if (pairs) {
      const arrows = splitTop(pairs.slice(1, -1)).map((pair) =>
        h("span.arrow", {}, pair.slice(1, -1).replace(",", "→")),
      );
      return h("section", {}, h("h3", {}, "Source and target devices"), h("div.arrows", {}, arrows));
    }
    const groups = text && parseGroups(text, program.numDevices);
    return groups
      ? h("section", {}, h("h3", {}, "Device groups"), h("code.sharding-text", {}, text), drawGroups(groups))
      : null;
  }

  source(i) {
    const { app, program } = this;
    const opName = program.opName(i);
    const fields = program.metadataFields(i);
    const lines = program
      .sourceLines(i)
      .map((line) =>
        h(
          "div.line",
          {},
          h(
            "button.link",
            { title: "Search for this line", onclick: () => app.search.open(`source:${line.split(" ")[0]}`) },
            line,
          ),
        ),
      );
    if (!opName && !fields.length) return null;
    const others = fields.filter(({ name }) => !["source_file", "source_line", "stack_frame_id"].includes(name));
    return h(
      "section",
      {},
      h("h3", {}, "Source"),
      opName &&
        h(
          "div.line.op-name",
          {},
          h(
            "button.link",
            { title: "Search for this op_name", onclick: () => app.search.open(`op_name:${opName}`) },
            opName,
          ),
        ),
      lines.length > 0 && foldable(lines, 8),
      others.length > 0 && properties(others.map(({ name, value }) => [name, value])),
    );
  }

  attributes(i) {
    const attrs = this.program.attrs(i);
    if (!attrs.length) return null;
    const rows = attrs.map(({ name, text, omitted }) => [name, [attributeValue(text), omittedNote(omitted)]]);
    return h("section", {}, h("h3", {}, "Attributes"), properties(rows));
  }
}

const noCounterpart = (status) =>
  h("p.note.empty", {}, `${status === "removed" ? "Removed" : "Added"}: this module has no counterpart.`);

/** A table of names and values. */
function properties(rows) {
  return h(
    "dl",
    {},
    rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

function omittedNote(omitted) {
  return omitted ? h("p.note", {}, `… and ${plural(omitted, "character")} that this page does not have`) : null;
}

/** JSON with line breaks, anything else as it is. */
function attributeValue(text) {
  if (text.length > 40 && /^[{[]/.test(text)) {
    try {
      return h("pre", {}, JSON.stringify(JSON.parse(text), null, 1));
    } catch {
      // HLO has lists in braces, which are no JSON.
    }
  }
  return h(text.length > 60 ? "pre" : "code", {}, text);
}

/** The first of many elements, and a button for the others. */
function foldable(elements, limit = MAX_LINKS) {
  if (elements.length <= limit + 2) return h("div", {}, elements);
  const box = h("div", {}, elements.slice(0, limit));
  box.append(
    h("button.more", { onclick: () => box.replaceChildren(...elements) }, `show all ${formatCount(elements.length)}`),
  );
  return box;
}
