// What is selected. The hash of the address keeps it, so that the back button and bookmarks work.

const VIEWS = ["instructions", "collectives", "memory", "module"];

const DEFAULTS = { view: "instructions", side: 0, computation: "", instr: "", k: 2 };

/** The selection: names, since they mean the same in a page that is made again. */
class State {
  constructor() {
    this.listeners = [];
    this.current = this.read();
    window.addEventListener("hashchange", () => {
      this.current = this.read();
      this.listeners.forEach((listener) => listener(this.current));
    });
  }

  read() {
    const found = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const state = { ...DEFAULTS, ...found };
    return {
      view: VIEWS.includes(state.view) ? state.view : DEFAULTS.view,
      side: state.side === "1" ? 1 : 0,
      computation: state.computation,
      instr: state.instr,
      k: Math.max(0, Math.min(9, Number(state.k) || 0)),
    };
  }

  /** Goes to another selection; the back button returns from it. */
  go(change) {
    const next = { ...this.current, ...change };
    const kept = Object.entries(next).filter(([name, value]) => value !== DEFAULTS[name]);
    location.hash = new URLSearchParams(Object.fromEntries(kept)).toString();
  }

  /** Selects an instruction, and shows the list that it is in unless `view` says otherwise. */
  select(program, i, view = "instructions") {
    this.go({ view, side: program.side, computation: program.computationOf(i).name, instr: program.instrName(i) });
  }

  selectComputation(program, computation) {
    this.go({ view: "instructions", side: program.side, computation: computation.name, instr: "" });
  }

  onchange(listener) {
    this.listeners.push(listener);
  }
}
