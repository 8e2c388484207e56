// Shapes as HLO text writes them.

/** An array shape in parts: `{type, dims, layout: {order, properties}}`; `null` for a tuple or a form that is unknown. */
function parseArray(text) {
  const match = /^(\w+)\[([^\]]*)\](?:\{([^:}]*)(?::(.*))?\})?$/.exec(text);
  if (!match) return null;
  const [, type, dims, order, properties] = match;
  const list = (items) => (items ? items.split(",").map((item) => item.trim()) : []);
  const layout = order === undefined ? null : { order: list(order).map(Number), properties: properties ?? "" };
  return { type, dims: list(dims), layout };
}

/** The elements of a tuple shape; `null` for another one. */
function tupleElements(text) {
  if (!text.startsWith("(")) return null;
  return splitTop(text.slice(1, -1));
}

/** A list at the commas outside of brackets and strings. */
function splitTop(text) {
  const parts = [];
  let depth = 0;
  let start = 0;
  let isString = false;
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (c === "\\" && isString) at += 1;
    else if (c === '"') isString = !isString;
    else if (isString) continue;
    else if ("([{<".includes(c) && text.slice(at, at + 2) !== "<=") depth += 1;
    else if (")]}>".includes(c) && text[at - 1] !== "-") depth -= 1;
    else if (c === "," && depth === 0) {
      parts.push(text.slice(start, at).trim());
      start = at + 1;
    }
  }
  const last = text.slice(start).trim();
  return last ? [...parts, last] : parts;
}

/** What a layout says, in words. */
function describeLayout(array) {
  if (!array.layout) return "no layout";
  const { order, properties } = array.layout;
  const rowMajor = order.every((dim, at) => dim === order.length - 1 - at);
  const words = [order.length < 2 ? null : rowMajor ? "row-major" : `minor to major ${order.join(", ")}`];
  const tiles = /^T((?:\([^)]*\))+)/.exec(properties)?.[1];
  if (tiles)
    words.push(
      `tiles of ${tiles
        .slice(1, -1)
        .split(")(")
        .map((tile) => tile.replaceAll(",", " × "))
        .join(", then ")}`,
    );
  const space = /S\((\d+)\)/.exec(properties)?.[1];
  if (space && space !== "0") words.push(`memory space ${space}${space === "5" ? " (host)" : ""}`);
  const bits = /E\((\d+)\)/.exec(properties)?.[1];
  if (bits && bits !== "0") words.push(`${bits} bits an element`);
  return words.filter(Boolean).join("; ");
}

/** A shape for a row: without layouts; of a long tuple the first element and the number of the others. */
function shortShape(text) {
  text = text.replace(/\{[^}]*\}/g, "");
  if (text.length <= 60) return text;
  const elements = tupleElements(text);
  if (!elements || elements.length < 2) return text;
  return `(${elements[0]}, … ${elements.length - 1} more)`;
}
