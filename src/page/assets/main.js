// The page: reads the data, keeps the parts on one selection, and listens to keys.

/** The parts that show one module. */
class Pane {
  constructor(app, program) {
    Object.assign(this, { app, program });
    this.outline = new Outline(app, program);
    this.list = new InstructionList(app, program);
    this.details = new Details(app, program);
    this.graph = new Graph(app, program);
    this.views = {};
    this.tabs = h("div.tabs");
    this.upper = h("div.upper");
    this.lower = h("div.lower", {}, this.tabs, this.details.element, this.graph.element);
    this.element = h("div.pane", {}, app.pairs && h("div.pane-title", {}, program.title), this.upper, this.lower);
    this.showTab("details");
  }

  /** Details or graph, where there is no room for both. */
  showTab(name) {
    this.element.dataset.tab = name;
    this.tabs.replaceChildren(
      ...["details", "graph"].map((tab) =>
        h(`button${tab === name ? ".selected" : ""}`, { onclick: () => this.app.showTab(tab) }, tab),
      ),
    );
    if (this.graph.wanted) this.graph.show(...this.graph.wanted);
  }

  view(name) {
    const make = {
      instructions: () => this.list,
      collectives: () => new Collectives(this.app, this.program),
      memory: () => new Memory(this.app, this.program),
      module: () => new Summary(this.app, this.program),
    };
    this.views[name] ??= make[name]();
    return this.views[name];
  }

  /** Shows a selection. With `status`, an instruction of the other module without a counterpart, whose place is at `near`. */
  show(view, computation, i, status, near) {
    this.current = this.view(view);
    this.element.dataset.view = view;
    if (this.upper.firstChild !== this.current.element) this.upper.replaceChildren(this.current.element);
    this.list.show(computation, i, near);
    if (view !== "instructions") this.current.show(computation, i);
    if (status) this.details.showNone(status);
    else this.details.show(computation, i);
    this.graph.show(i, status);
    this.outline.show(computation);
  }
}

class App {
  constructor(programs, pairs) {
    Object.assign(this, { programs, pairs, onlyChanges: false, state: new State() });
    this.search = new Search(this);
    this.panes = programs.map((program) => new Pane(this, program));
    const main = document.getElementById("main");
    document.getElementById("outline").append(...this.panes.map((pane) => pane.outline.element));
    document.getElementById("stage").append(...this.panes.map((pane) => pane.element));
    document.getElementById("title").textContent = pairs
      ? `${programs[0].title} ⇄ ${programs[1].title}`
      : programs[0].title;
    document.body.classList.toggle("compare", Boolean(pairs));
    document.getElementById("outline-toggle").onclick = () => this.toggleOutline();
    document.getElementById("help-toggle").onclick = () => this.toggleHelp();
    document.getElementById("help").onclick = () => document.getElementById("help").close();
    this.makeTheme();
    this.state.onchange(() => this.draw());
    document.addEventListener("keydown", (event) => this.key(event));
    main.hidden = false;
    this.draw();
  }

  toggleOutline() {
    document.body.classList.toggle("no-outline");
  }

  showTab(name) {
    this.panes.forEach((pane) => pane.showTab(name));
  }

  /** The selected instruction and its computation, as far as the names in the state are known. */
  selection() {
    const { side, computation, instr } = this.state.current;
    const program = this.programs[side] ?? this.programs[0];
    const found = program.findComputation(computation) ?? program.entry;
    return { program, computation: found, i: instr ? program.findInstr(found, instr) : null };
  }

  draw() {
    const { view } = this.state.current;
    this.drawViews();
    const { program, computation, i } = this.selection();
    this.panes[program.side]?.show(view, computation, i);
    if (!this.pairs) return;
    const other = this.panes[1 - program.side];
    const partner = i === null ? null : this.pairs.counterpart(program.side, i);
    if (partner !== null) return other.show(view, other.program.computationOf(partner), partner);
    const near = i === null ? null : this.pairs.nearest(program.side, computation, i);
    const found = near !== null ? other.program.computationOf(near) : this.counterpartOf(program, computation);
    const isFound = i === null && found !== null;
    other.show(
      view,
      found ?? other.list.computation ?? other.program.entry,
      null,
      isFound ? undefined : this.pairs.status(program.side, i ?? computation.first),
      near,
    );
  }

  counterpartOf(program, computation) {
    return computation === program.entry
      ? this.programs[1 - program.side].entry
      : this.pairs.counterpartOf(program.side, computation);
  }

  drawViews() {
    const { view } = this.state.current;
    const hasMemory = this.programs.some((program) => program.data.memory);
    const views = VIEWS.filter((name) => name !== "memory" || hasMemory);
    const buttons = views.map((name) =>
      h(`button${name === view ? ".selected" : ""}`, { onclick: () => this.state.go({ view: name }) }, name),
    );
    if (this.pairs) {
      const box = h("input", {
        type: "checkbox",
        onchange: () => {
          this.onlyChanges = box.checked;
          this.draw();
        },
      });
      box.checked = this.onlyChanges;
      buttons.push(
        h("label", { title: "List only instructions that were added, removed or changed" }, box, "changes only"),
      );
    }
    document.getElementById("views").replaceChildren(...buttons);
  }

  /** Selects the next or previous instruction that is not the same in both modules. */
  change(distance) {
    if (!this.pairs) return;
    const { program, computation, i } = this.selection();
    const end = distance > 0 ? program.rows.length : -1;
    for (let at = (i ?? computation.first - distance) + distance; at !== end && at >= 0; at += distance) {
      if (this.pairs.status(program.side, at) !== "same") return this.state.select(program, at);
    }
  }

  makeTheme() {
    const button = document.getElementById("theme");
    const themes = ["system", "light", "dark"];
    let theme = "system";
    try {
      theme = localStorage.getItem("hloom-theme") ?? theme;
    } catch {
      // A file may have no storage.
    }
    const apply = () => {
      if (theme === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = theme;
      button.title = `Theme: ${theme}`;
    };
    button.onclick = () => {
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      apply();
      try {
        localStorage.setItem("hloom-theme", theme);
      } catch {
        // Then the choice holds until the page is closed.
      }
    };
    apply();
  }

  toggleHelp() {
    const help = document.getElementById("help");
    if (help.open) return help.close();
    help.replaceChildren(h("h2", {}, "Keys"), properties(KEYS.map(([keys, , text]) => [h("kbd", {}, keys), text])));
    help.showModal();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input[type=search], select")) return;
    const found = KEYS.find(([, names]) => names.includes(event.key));
    if (!found?.[3]) return;
    event.preventDefault();
    found[3](this, event.key);
  }

  /** Follows the first operand or user of the selected instruction, or goes into the computation it calls. */
  follow(kind) {
    const { program, i } = this.selection();
    if (i === null) return;
    const target = {
      operand: () => program.operands(i)[0],
      user: () => program.usersOf(i)[0],
      callee: () => program.calls(i)[0]?.callee.root,
    }[kind]();
    if (target !== undefined) this.state.select(program, target);
  }

  step(distance) {
    this.panes[this.selection().program.side].current.step(distance);
  }
}

/** Keys as the help shows them, their names, what they do, and how. */
const KEYS = [
  [
    "/",
    ["/"],
    "search",
    (app) => {
      app.search.input.focus();
      app.search.input.select();
    },
  ],
  ["↑ ↓", ["ArrowUp", "ArrowDown"], "previous and next row", (app, key) => app.step(key === "ArrowUp" ? -1 : 1)],
  ["PgUp PgDn", ["PageUp", "PageDown"], "20 rows up or down", (app, key) => app.step(key === "PageUp" ? -20 : 20)],
  [
    "← →",
    ["ArrowLeft", "ArrowRight"],
    "first operand, first user",
    (app, key) => app.follow(key === "ArrowLeft" ? "operand" : "user"),
  ],
  ["Enter", ["Enter"], "into the called computation", (app) => app.follow("callee")],
  ["Backspace", ["Backspace"], "back", (app) => app.state.back()],
  [
    "[ ]",
    ["[", "]"],
    "fewer or more steps in the graph",
    (app, key) => app.panes[0].graph.setSteps(app.state.current.k + (key === "[" ? -1 : 1)),
  ],
  [
    "g",
    ["g"],
    "details or graph",
    (app) => app.showTab(app.panes[0].element.dataset.tab === "graph" ? "details" : "graph"),
  ],
  ["n p", ["n", "p"], "next and previous change, of two modules", (app, key) => app.change(key === "n" ? 1 : -1)],
  [
    "1 – 4",
    ["1", "2", "3", "4"],
    "instructions, collectives, memory, module",
    (app, key) => app.state.go({ view: VIEWS[Number(key) - 1] }),
  ],
  ["o", ["o"], "outline", (app) => app.toggleOutline()],
  [
    "Esc",
    ["Escape"],
    "close the search",
    (app) => {
      app.search.close();
      document.getElementById("help").close();
    },
  ],
  ["?", ["?"], "this list", (app) => app.toggleHelp()],
];

/** The JSON of an element of the page. */
function embedded(id) {
  const element = document.getElementById(id);
  if (!element) return null;
  const value = JSON.parse(element.textContent);
  // The text is not needed again.
  element.remove();
  return value;
}

const programs = ["module-0", "module-1"]
  .map(embedded)
  .filter(Boolean)
  .map((data, side) => new Program(data, side));
const flatPairs = embedded("pairs");
new App(programs, flatPairs && new Pairs(flatPairs, programs));
document.documentElement.dataset.ready = "true";
