// Search by name, opcode, shape and op_name, as one types.

const FIELDS = ["name", "op", "shape", "op_name", "source", "in"];

/** The words of a query: `{field, text}`; a word without a field matches any. */
function parseQuery(query) {
  return query
    .trim()
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => {
      const field = FIELDS.find((name) => word.startsWith(`${name}:`));
      return field ? { field, text: word.slice(field.length + 1) } : { field: null, text: word.replace(/^%/, "") };
    });
}

/** The instructions that match all words. Shapes, opcodes and op_names are compared once each, not once for an instruction. */
function findInstrs(program, words) {
  program.lowerNames ??= program.rows.map((row) => row[0].toLowerCase());
  const tests = words.map(({ field, text }) => wordTest(program, field, text));
  const found = [];
  for (let i = 0; i < program.rows.length; i += 1) {
    if (tests.every((test) => test(i))) found.push(i);
  }
  return found;
}

function wordTest(program, field, text) {
  const { data, rows, lowerNames } = program;
  const has = (value) => value.toLowerCase().includes(text);
  const isOpcode = data.opcodes.map((opcode) =>
    field === "op" ? opcode === text || (opcode.startsWith(text) && !data.opcodes.includes(text)) : has(opcode),
  );
  const isShape = data.shapes.map(([shape]) => has(shape));
  const isOpName = new Map();
  const opName = (i) => {
    const index = rows[i][5] ?? 0;
    if (!isOpName.has(index)) isOpName.set(index, index > 0 && has(program.string(index).text));
    return isOpName.get(index);
  };
  const isSource = new Map();
  const source = (i) => {
    const index = rows[i][6] ?? 0;
    if (!isSource.has(index)) isSource.set(index, index > 0 && has(program.sourceLines(i).join("\n")));
    return isSource.get(index);
  };
  const isInside = field === "in" && new Set(program.computations.filter((computation) => has(computation.name)));
  switch (field) {
    case "name":
      return (i) => lowerNames[i].includes(text);
    case "op":
      return (i) => isOpcode[rows[i][1]];
    case "shape":
      return (i) => isShape[rows[i][2]];
    case "op_name":
      return opName;
    case "source":
      return source;
    case "in":
      return (i) => isInside.has(program.computationOf(i));
    default:
      return (i) => lowerNames[i].includes(text) || isOpcode[rows[i][1]] || isShape[rows[i][2]] || opName(i);
  }
}

class Search {
  constructor(app) {
    Object.assign(this, { app, found: [], at: 0 });
    this.input = document.getElementById("query");
    this.box = document.getElementById("results");
    this.count = h("div.result-count");
    this.body = h("div.result-body");
    this.box.append(this.count, this.body);
    this.list = new VirtualList(this.body, ROW_HEIGHT, (index) => this.row(index));
    this.input.addEventListener("input", () => this.run());
    this.input.addEventListener("focus", () => this.run());
    this.input.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("#search")) this.close();
    });
  }

  /** Searches for a query, as if it was typed. */
  open(query) {
    this.input.value = query;
    this.input.focus();
    this.run();
  }

  close() {
    this.box.hidden = true;
  }

  run() {
    const words = parseQuery(this.input.value);
    if (!words.length) return this.close();
    const { programs } = this.app;
    this.found = programs.flatMap((program) => findInstrs(program, words).map((i) => ({ program, i })));
    if (words[0].field === null) this.found = this.ranked(this.found, words[0].text);
    this.at = 0;
    this.box.hidden = false;
    const hint = "words match name, opcode, shape or op_name; fields: name: op: shape: op_name: source: in:";
    this.count.replaceChildren(h("b", {}, plural(this.found.length, "instruction")), h("span.quiet", {}, ` · ${hint}`));
    this.body.scrollTop = 0;
    this.body.style.height = `${Math.min(14, Math.max(1, this.found.length)) * ROW_HEIGHT}px`;
    this.list.setCount(this.found.length);
  }

  /** The name that was typed, then the opcode, then parts of names, then other matches; each in order of the module. */
  ranked(found, word) {
    const ranks = [[], [], [], [], []];
    for (const result of found) {
      const name = result.program.lowerNames[result.i];
      const opcode = result.program.opcode(result.i);
      const rank =
        name === word
          ? 0
          : opcode === word
            ? 1
            : name.startsWith(word)
              ? 2
              : name.includes(word) || opcode.includes(word)
                ? 3
                : 4;
      ranks[rank].push(result);
    }
    return ranks.flat();
  }

  row(index) {
    const { program, i } = this.found[index];
    return h(
      `div.row.result${index === this.at ? ".selected" : ""}`,
      { onclick: () => this.choose(index) },
      this.app.pairs && h("span.quiet", {}, program.title),
      h("span.result-name", {}, program.instrName(i)),
      opcodeChip(program.opcode(i)),
      h("code", {}, shortShape(program.shape(i))),
      h("span.quiet", {}, program.computationOf(i).name),
    );
  }

  choose(index) {
    const { program, i } = this.found[index] ?? {};
    if (!program) return;
    this.close();
    this.input.blur();
    this.app.state.select(program, i);
  }

  key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12 };
    if (event.key in steps) {
      this.at = Math.max(0, Math.min(this.found.length - 1, this.at + steps[event.key]));
      this.list.redraw();
      this.list.reveal(this.at);
      event.preventDefault();
    } else if (event.key === "Enter") this.choose(this.at);
    else if (event.key === "Escape") {
      this.close();
      this.input.blur();
    }
  }
}
