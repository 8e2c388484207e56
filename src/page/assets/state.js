// What is selected. The hash of the address keeps it, so that the back button and bookmarks work.

const VIEWS = ["instructions", "collectives", "memory", "module"];

const DEFAULTS = { view: "instructions", side: 0, computation: "", instr: "", k: 2 };

/** Browsers refuse to change the address too often, as a key that is held down would. */
const STEP_DELAY = 200;

/** The selection: names, since they mean the same in a page that is made again. */
class State {
  constructor() {
    this.listeners = [];
    this.current = this.read();
    window.addEventListener("hashchange", () => {
      clearTimeout(this.timer);
      this.timer = null;
      if (this.hash(this.read()) !== this.hash(this.current)) this.set(this.read());
    });
  }

  read() {
    const state = { ...DEFAULTS, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) };
    return {
      view: VIEWS.includes(state.view) ? state.view : DEFAULTS.view,
      side: Number(state.side) === 1 ? 1 : 0,
      computation: state.computation,
      instr: state.instr,
      k: Math.max(0, Math.min(9, Math.round(Number(state.k)) || 0)),
    };
  }

  hash(state) {
    const kept = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]);
    return new URLSearchParams(Object.fromEntries(kept)).toString();
  }

  set(state) {
    this.current = state;
    this.listeners.forEach((listener) => listener(state));
  }

  /** Goes to another selection; the back button returns from it. */
  go(change) {
    this.settle();
    this.set({ ...this.current, ...change });
    location.hash = this.hash(this.current);
  }

  /** Goes to a neighboring selection, in place of the present one. */
  step(change) {
    this.set({ ...this.current, ...change });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.settle(), STEP_DELAY);
  }

  /** Writes the address after steps. */
  settle() {
    if (!this.timer) return;
    clearTimeout(this.timer);
    this.timer = null;
    location.replace(`#${this.hash(this.current)}`);
  }

  back() {
    this.settle();
    history.back();
  }

  /** Selects an instruction, and shows the list that it is in unless `view` says otherwise. */
  select(program, i, view = "instructions") {
    this.go(this.changeTo(program, i, view));
  }

  selectStep(program, i, view = "instructions") {
    this.step(this.changeTo(program, i, view));
  }

  changeTo(program, i, view) {
    return { view, side: program.side, computation: program.computationOf(i).name, instr: program.instrName(i) };
  }

  selectComputation(program, computation) {
    this.go({ view: "instructions", side: program.side, computation: computation.name, instr: "" });
  }

  onchange(listener) {
    this.listeners.push(listener);
  }
}
