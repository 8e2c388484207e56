// A list and a table of which the document has only the rows in sight.

/** A list of rows of one height, of which the document has only those in sight. */
class VirtualList {
  /** `render(index)` makes the element of a row. */
  constructor(element, rowHeight, render) {
    Object.assign(this, { element, rowHeight, render, count: 0 });
    this.space = h("div.space");
    element.classList.add("virtual");
    element.append(this.space);
    element.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  setCount(count) {
    this.count = count;
    this.space.style.height = `${count * this.rowHeight}px`;
    this.redraw();
  }

  redraw() {
    this.shown = undefined;
    this.draw();
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - 4);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + 4);
    if (this.shown && this.shown[0] === first && this.shown[1] === last) return;
    this.shown = [first, last];
    const rows = [];
    for (let index = first; index < last; index += 1) {
      const row = this.render(index);
      row.style.transform = `translateY(${index * this.rowHeight}px)`;
      rows.push(row);
    }
    this.space.replaceChildren(...rows);
  }

  /** Scrolls as little as brings a row into sight, with some rows around it. */
  reveal(index) {
    if (index < 0) return;
    const { scrollTop, clientHeight } = this.element;
    const top = index * this.rowHeight;
    const margin = Math.min(3 * this.rowHeight, clientHeight / 3);
    if (top < scrollTop + margin) this.element.scrollTop = top - margin;
    else if (top + this.rowHeight > scrollTop + clientHeight - margin) {
      this.element.scrollTop = top + this.rowHeight - clientHeight + margin;
    }
    this.draw();
  }
}

const ROW_HEIGHT = 24;

const cellClasses = (column) => ["cell", column.number && "number", column.class].filter(Boolean).join(".");

/**
 * A table that sorts by its columns: `{title, value(row), cell(row), width, number, class}`. A row is what the caller lists; columns
 * of the class `extra` are hidden where there is little room, those of the class `more-extra` where there is less.
 */
class Table {
  constructor(columns, { onselect, rowClass = () => "" }) {
    Object.assign(this, { columns, onselect, rowClass, rows: [], order: [], sort: null });
    this.head = h("div.table-head");
    this.body = h("div.table-body", { tabindex: -1 });
    const widths = (...hidden) =>
      columns
        .filter((column) => !hidden.includes(column.class))
        .map((column) => column.width)
        .join(" ");
    const style = `--wide:${widths()};--medium:${widths("extra")};--narrow:${widths("extra", "more-extra")}`;
    this.element = h("div.table", { style }, this.head, this.body);
    this.list = new VirtualList(this.body, ROW_HEIGHT, (index) => this.row(this.order[index]));
    this.drawHead();
  }

  drawHead() {
    const cells = this.columns.map((column, index) => {
      const sorted = this.sort && this.sort.index === index;
      const mark = sorted ? (this.sort.down ? " ▾" : " ▴") : "";
      const name = `button.${cellClasses(column)}${sorted ? ".sorted" : ""}`;
      return h(
        name,
        { onclick: () => this.sortBy(index), title: column.hint ?? `Sort by ${column.title || "order"}` },
        column.title + mark,
      );
    });
    this.head.replaceChildren(...cells);
  }

  setRows(rows) {
    this.rows = rows;
    this.arrange();
  }

  /** Sorts by a column: its natural direction, the other one, then the order of the rows. */
  sortBy(index) {
    const first = Boolean(this.columns[index].number);
    if (!this.sort || this.sort.index !== index) this.sort = { index, down: first };
    else if (this.sort.down === first) this.sort.down = !first;
    else this.sort = null;
    this.drawHead();
    this.arrange();
    this.body.scrollTop = 0;
  }

  arrange() {
    this.order = this.rows.slice();
    if (this.sort) {
      const { value } = this.columns[this.sort.index];
      const keys = new Map(this.order.map((row) => [row, value(row)]));
      const sign = this.sort.down ? -1 : 1;
      this.order.sort((a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        return x < y ? -sign : x > y ? sign : 0;
      });
    }
    this.list.setCount(this.order.length);
  }

  row(row) {
    const cells = this.columns.map((column) => {
      const content = column.cell(row);
      const title = typeof content === "string" ? content : undefined;
      return h(`span.${cellClasses(column)}`, { title }, content);
    });
    return h(
      `div.row ${this.rowClass(row)}`.trim().replaceAll(" ", "."),
      { onclick: () => this.onselect(row) },
      ...cells,
    );
  }

  redraw() {
    this.list.redraw();
  }

  reveal(row) {
    this.list.reveal(this.order.indexOf(row));
  }

  /** The row so many places after another one. */
  step(row, distance) {
    const at = this.order.indexOf(row);
    if (at < 0) return this.order[distance > 0 ? 0 : this.order.length - 1];
    return this.order[Math.max(0, Math.min(this.order.length - 1, at + distance))];
  }
}
