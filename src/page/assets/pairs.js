// Which instructions of the two modules correspond.

class Pairs {
  /** `flat` has the instruction before, the one after, and 1 for a change, in turn. */
  constructor(flat, programs) {
    this.programs = programs;
    this.partners = programs.map((program) => new Int32Array(program.rows.length).fill(-1));
    this.changed = programs.map((program) => new Uint8Array(program.rows.length));
    for (let at = 0; at < flat.length; at += 3) {
      this.partners[0][flat[at]] = flat[at + 1];
      this.partners[1][flat[at + 1]] = flat[at];
      this.changed[0][flat[at]] = flat[at + 2];
      this.changed[1][flat[at + 1]] = flat[at + 2];
    }
  }

  /** The instruction of the other module; `null` if there is none. */
  counterpart(side, i) {
    const partner = this.partners[side][i];
    return partner < 0 ? null : partner;
  }

  /** `same`, `changed`, `removed` or `added`. */
  status(side, i) {
    if (this.partners[side][i] < 0) return side === 0 ? "removed" : "added";
    return this.changed[side][i] ? "changed" : "same";
  }

  /** The counterpart of the nearest instruction above one that has none; `null` if there is none. */
  nearest(side, computation, i) {
    for (let at = i; at >= computation.first; at -= 1) {
      if (this.partners[side][at] >= 0) return this.partners[side][at];
    }
    return null;
  }

  /** The computation of the other module in which most counterparts are; `null` if there is none. */
  counterpartOf(side, computation) {
    const other = this.programs[1 - side];
    const votes = new Map();
    for (let i = computation.first; i < computation.first + computation.size; i += 1) {
      const partner = this.counterpart(side, i);
      if (partner === null) continue;
      const found = other.computationOf(partner);
      votes.set(found, (votes.get(found) || 0) + 1);
    }
    const best = [...votes].sort((a, b) => b[1] - a[1])[0];
    return best ? best[0] : null;
  }

  /** Numbers of instructions of a computation that are not the same. */
  differences(side, computation) {
    computation.differences ??= this.countDifferences(side, computation);
    return computation.differences;
  }

  countDifferences(side, computation) {
    const counts = { changed: 0, removed: 0, added: 0 };
    for (let i = computation.first; i < computation.first + computation.size; i += 1) {
      const status = this.status(side, i);
      if (status !== "same") counts[status] += 1;
    }
    return counts;
  }
}

const STATUS_MARKS = { same: "", changed: "~", removed: "−", added: "+" };
