// A module of the page. `src/page/data.rs` writes what this reads; a row is decoded when something shows it.

/** Instructions that give a value another name, or that others compute, and so have no bytes of their own. */
const NO_BYTES = new Set([
  "parameter",
  "constant",
  "get-tuple-element",
  "tuple",
  "bitcast",
  "while",
  "conditional",
  "call",
  "opt-barrier",
  "after-all",
  "partition-id",
  "replica-id",
  "add-dependency",
  "domain",
]);

const CATEGORIES = [
  ["product", /^(dot|convolution|ragged-dot|scaled-dot|cholesky|triangular-solve|fft)/],
  ["collective", /^(all-|collective-|reduce-scatter|ragged-all|send|recv|infeed|outfeed|partition-id|replica-id)/],
  ["control", /^(while|conditional|call|async-|fusion-|opt-barrier|after-all|custom-call)/],
  ["fusion", /^fusion$/],
  ["input", /^(parameter|constant|iota|rng)/],
  [
    "movement",
    /^(copy|bitcast|reshape|transpose|broadcast|slice|dynamic-|concatenate|pad|gather|scatter|reverse|tuple|get-tuple)/,
  ],
];

/** The class of an opcode, for its colour. */
function category(opcode) {
  const found = CATEGORIES.find(([, pattern]) => pattern.test(opcode));
  return found ? found[0] : "elementwise";
}

class Program {
  /** `side` is 0 for the only or left module, 1 for the right one. */
  constructor(data, side) {
    Object.assign(this, { data, side, title: data.title, name: data.name, rows: data.instructions });
    this.computations = data.computations.map(([name, first, size, root, executions], index) => ({
      index,
      name,
      first,
      size,
      root: first + root,
      executions,
      calls: [],
      callers: [],
      isFused: false,
    }));
    for (const computation of this.computations) {
      for (const [position, attr, callee, runs] of data.computations[computation.index][5]) {
        const instr = computation.first + position;
        const call = { instr, attr: data.strings[attr], caller: computation, callee: this.computations[callee], runs };
        computation.calls.push(call);
        call.callee.callers.push(call);
        call.callee.isFused ||= this.opcode(instr) === "fusion";
      }
    }
    this.entry = this.computations[data.entry];
    this.users = new Map();
    this.callsOf = new Map();
    this.countSizes();
  }

  /** FLOPs and bytes of one run of each computation with its callees, which come before their callers. */
  countSizes() {
    for (const computation of this.computations) {
      computation.flops = 0;
      computation.bytes = 0;
      for (let i = computation.first; i < computation.first + computation.size; i += 1) {
        computation.flops += this.rows[i][7] ?? 0;
        if (!computation.isFused) computation.bytes += this.ownBytes(i);
      }
      for (const { callee, runs } of computation.calls) {
        computation.flops += runs * callee.flops;
        computation.bytes += runs * (callee.isFused ? 0 : callee.bytes);
      }
      if (computation.isFused) computation.bytes = this.bytes(computation.root);
    }
  }

  /** The number of instructions of a computation and of those it calls, each once. */
  instructionCount(computation) {
    if (computation.total === undefined) {
      const reached = new Set([computation]);
      for (const next of reached) next.calls.forEach((call) => reached.add(call.callee));
      computation.total = [...reached].reduce((sum, next) => sum + next.size, 0);
    }
    return computation.total;
  }

  /** A text of the string table: `{text, omitted}`, the number of characters that the page does not have. */
  string(index) {
    const value = this.data.strings[index ?? 0];
    return typeof value === "string" ? { text: value, omitted: 0 } : { text: value[0], omitted: value[1] };
  }

  instrName(i) {
    return this.rows[i][0];
  }
  opcode(i) {
    return this.data.opcodes[this.rows[i][1]];
  }
  shape(i) {
    return this.data.shapes[this.rows[i][2]][0];
  }
  bytes(i) {
    return this.data.shapes[this.rows[i][2]][1];
  }
  opName(i) {
    return this.string(this.rows[i][5]).text;
  }
  metadata(i) {
    return this.string(this.rows[i][6]).text;
  }
  payload(i) {
    return this.string(this.rows[i][8]);
  }

  /** Bytes of the result of an instruction; those of an asynchronous one count at its end. */
  ownBytes(i) {
    const opcode = this.opcode(i);
    return NO_BYTES.has(opcode) || opcode.endsWith("-start") || opcode.endsWith("-update") ? 0 : this.bytes(i);
  }

  /** FLOPs of one run of an instruction, with the computations it calls. */
  flops(i) {
    return this.calls(i).reduce((sum, call) => sum + call.runs * call.callee.flops, this.rows[i][7] ?? 0);
  }

  /** Bytes of the results of one run of an instruction, with the computations it calls. */
  bytesWithCalls(i) {
    const calls = this.calls(i).filter((call) => !call.callee.isFused);
    return calls.reduce((sum, call) => sum + call.runs * call.callee.bytes, this.ownBytes(i));
  }

  computationOf(i) {
    let [low, high] = [0, this.computations.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.computations[middle].first <= i) low = middle;
      else high = middle - 1;
    }
    // Computations without instructions start where the next one does.
    return this.computations[low];
  }

  operands(i) {
    const { first } = this.computationOf(i);
    return (this.rows[i][3] || []).map((position) => first + position);
  }

  predecessors(i) {
    const { first } = this.computationOf(i);
    return (this.rows[i][9] || []).map((position) => first + position);
  }

  /** The instructions that an instruction is an operand of, each once. */
  usersOf(i) {
    const computation = this.computationOf(i);
    if (!this.users.has(computation)) {
      const users = Array.from({ length: computation.size }, () => []);
      for (let user = computation.first; user < computation.first + computation.size; user += 1) {
        for (const position of new Set(this.rows[user][3] || [])) users[position].push(user);
      }
      this.users.set(computation, users);
    }
    return this.users.get(computation)[i - computation.first];
  }

  /** The calls that an instruction makes. */
  calls(i) {
    const computation = this.computationOf(i);
    if (!this.callsOf.has(computation)) {
      const calls = new Map();
      for (const call of computation.calls) calls.set(call.instr, [...(calls.get(call.instr) || []), call]);
      this.callsOf.set(computation, calls);
    }
    return this.callsOf.get(computation).get(i) || [];
  }

  /** Attributes as `{name, text, omitted}`. */
  attrs(i) {
    const flat = this.rows[i][4] || [];
    return Array.from({ length: flat.length / 2 }, (_, at) => ({
      name: this.string(flat[2 * at]).text,
      ...this.string(flat[2 * at + 1]),
    }));
  }

  attr(i, name) {
    return this.attrs(i).find((attr) => attr.name === name)?.text;
  }

  moduleAttrs() {
    return this.data.attrs.map(([name, value]) => ({ name: this.string(name).text, ...this.string(value) }));
  }

  moduleAttr(name) {
    return this.moduleAttrs().find((attr) => attr.name === name)?.text;
  }

  /** Number of devices that the module runs on: as it says, or as many as its meshes have. */
  get numDevices() {
    const said = Number(this.moduleAttr("num_partitions") ?? 1) * Number(this.moduleAttr("replica_count") ?? 1);
    const meshes = [...shardyMeshes(this).values()].map((mesh) => product(mesh.axes.map((axis) => axis.size)));
    return Math.max(said, ...meshes);
  }

  /** The stack of a frame, innermost first: `{file, function, line}`. */
  stack(frame) {
    this.stacks ??= new Map(this.data.stacks);
    return (this.stacks.get(frame) || []).map(([file, name, line]) => ({
      file: this.string(file).text,
      function: this.string(name).text,
      line,
    }));
  }

  /** The fields of the metadata that are left beside `op_name`. */
  metadataFields(i) {
    const fields = this.metadata(i).matchAll(/([\w.]+)=("(?:[^"\\]|\\.)*"|\{[^}]*\}|[^\s,{}]+)/g);
    return Array.from(fields, ([, name, value]) => ({ name, value: unquoted(value) }));
  }

  /** The lines of source of an instruction, innermost first: `model.py:7 layer`. */
  sourceLines(i) {
    const fields = new Map(this.metadataFields(i).map(({ name, value }) => [name, value]));
    const file = fields.get("source_file");
    const stack = this.stack(Number(fields.get("stack_frame_id")));
    return [
      ...(file ? [`${file}:${fields.get("source_line") ?? "?"}`] : []),
      ...stack.map((frame) => `${frame.file}:${frame.line} ${frame.function}`),
    ];
  }

  findComputation(name) {
    this.computationNames ??= new Map(this.computations.map((computation) => [computation.name, computation]));
    return this.computationNames.get(name);
  }

  findInstr(computation, name) {
    for (let i = computation.first; i < computation.first + computation.size; i += 1) {
      if (this.rows[i][0] === name) return i;
    }
    return null;
  }

  /** The first instruction of this name, of the entry if it has one; `null` if there is none. */
  findAnywhere(name) {
    if (!this.instrNames) {
      this.instrNames = new Map();
      const { first, size } = this.entry;
      const add = (i) => this.instrNames.has(this.rows[i][0]) || this.instrNames.set(this.rows[i][0], i);
      for (let i = first; i < first + size; i += 1) add(i);
      for (let i = 0; i < this.rows.length; i += 1) add(i);
    }
    return this.instrNames.get(name) ?? null;
  }

  /** An instruction as HLO text; `omitted` is the number of characters that the page does not have. */
  hlo(i) {
    const inside = this.operands(i).map((operand) => `%${this.instrName(operand)}`);
    const payload = this.payload(i);
    let omitted = payload.omitted;
    let text = `%${this.instrName(i)} = ${this.shape(i)} ${this.opcode(i)}(${payload.text}${inside.join(", ")})`;
    const calls = new Map();
    for (const { attr, callee } of this.calls(i)) calls.set(attr, [...(calls.get(attr) || []), `%${callee.name}`]);
    for (const [attr, names] of calls) {
      const list = /^(branch_computations|called_computations)$/.test(attr);
      text += `, ${attr}=${list ? `{${names.join(", ")}}` : names[0]}`;
    }
    for (const attr of this.attrs(i)) {
      text += `, ${attr.name}=${attr.text}`;
      omitted += attr.omitted;
    }
    const before = this.predecessors(i).map((other) => `%${this.instrName(other)}`);
    if (before.length) text += `, control-predecessors={${before.join(", ")}}`;
    const metadata = [this.opName(i) && `op_name="${this.opName(i)}"`, this.metadata(i)].filter(Boolean);
    if (metadata.length) text += `, metadata={${metadata.join(" ")}}`;
    return { text, omitted };
  }
}

/** The text of a string literal, or the text itself if it is none. */
function unquoted(text) {
  return text.startsWith('"') ? text.slice(1, -1).replace(/\\(.)/g, "$1") : text;
}
