// Elements, and numbers as text.

/** An element: `h("div.row", {title: "x"}, child, "text")`. Properties that begin with `on` are listeners. */
function h(spec, props = {}, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") element.style.cssText = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** An SVG element. */
function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const plural = (count, noun) => `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;

/** 12345 as `12,345`; a fraction keeps three digits. */
function formatCount(count) {
  return count.toLocaleString("en-US", { maximumFractionDigits: count < 10 ? 3 : 0 });
}

function scaled(value, base, units) {
  let unit = 0;
  while (Math.abs(value) >= base && unit < units.length - 1) {
    value /= base;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

const formatBytes = (bytes) => scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
const formatFlops = (flops) => scaled(flops, 1000, ["FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"]);

/** A bar whose length is a share of 1. */
const bar = (share) => h("span.bar", {}, h("span", { style: `width:${(100 * Math.min(1, share || 0)).toFixed(2)}%` }));
