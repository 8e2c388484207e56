// Shardings and device groups, and the mesh drawn with one colour for each shard or group.

const MAX_DRAWN_DEVICES = 4096;

const product = (sizes) => sizes.reduce((product, size) => product * size, 1);

/** The index of a position in each dimension, row-major. */
function unravel(position, dims) {
  const index = [];
  for (let dim = dims.length - 1; dim >= 0; dim -= 1) {
    index[dim] = position % dims[dim];
    position = Math.floor(position / dims[dim]);
  }
  return index;
}

/** Device numbers in order: `[8]`, `[4,2]T(1,0)`; `dims` is the grid that they count through. */
function iotaDevices(text) {
  const match = /^\[([\d,]+)\](?:T\(([\d,]+)\))?/.exec(text);
  if (!match) return null;
  const dims = match[1].split(",").map(Number);
  const order = match[2] ? match[2].split(",").map(Number) : dims.map((_, dim) => dim);
  const total = product(dims);
  if (total > 1 << 20) return null;
  const strides = dims.map((_, dim) => product(dims.slice(dim + 1)));
  const transposed = order.map((dim) => dims[dim]);
  const number = (position) =>
    unravel(position, transposed).reduce((sum, index, at) => sum + index * strides[order[at]], 0);
  return { dims, devices: Array.from({ length: total }, (_, position) => number(position)) };
}

/** The shardings in the attributes of an instruction, each with where it is from. */
function shardingsOf(program, i) {
  const found = [];
  const attr = program.attr(i, "sharding");
  if (attr) found.push(...parseShardingAttr(attr));
  const frontend = program.attr(i, "frontend_attributes") ?? "";
  const quoted = /xla\.sdy\.sharding="((?:[^"\\]|\\.)*)"/.exec(frontend)?.[1];
  if (quoted) found.push(...parseShardy(quoted.replace(/\\(.)/g, "$1"), shardyMeshes(program)));
  return found;
}

/** `{devices=[4,2]<=[8]}`, `{mesh['x'=4], [{'x'}, {}]}`, `{{replicated}, {maximal device=0}}` */
function parseShardingAttr(text) {
  const inner = text.trim().slice(1, -1).trim();
  if (inner.startsWith("{")) return splitTop(inner).flatMap(parseShardingAttr);
  if (inner.startsWith("mesh")) return [parseMeshSharding(inner)];
  const words = inner.replace(/,?\s*metadata=\{.*$/s, "");
  const match = /^devices=\[([\d,]+)\](?:<=(\[[\d,]+\](?:T\([\d,]+\))?)|([\d,]+))(?=[\s,]|$)/.exec(words);
  if (!match) return [{ text: words, note: describeWord(words) }];
  const tile = match[1].split(",").map(Number);
  const listed = match[3] ? { dims: null, devices: match[3].split(",").map(Number) } : iotaDevices(match[2]);
  if (!listed || listed.devices.length !== product(tile))
    return [{ text: words, note: "a form that this page does not know" }];
  const named = /last_tile_dims=\{([^}]*)\}/
    .exec(words)?.[1]
    .split(",")
    .map((word) => word.trim());
  const others = named ?? (words.includes("last_tile_dim_replicate") ? ["replicated"] : []);
  const dataDims = tile.length - others.length;
  const shards = new Map(
    listed.devices.map((device, position) => [device, unravel(position, tile).slice(0, dataDims)]),
  );
  const note = others.map((word, at) => `${word} over ${tile[dataDims + at]}`).join(", ");
  return [{ text: words, counts: tile.slice(0, dataDims), shards, grid: listed.dims, note }];
}

function describeWord(text) {
  if (text.startsWith("replicated")) return "every device has the whole array";
  if (text.startsWith("maximal")) return "one device has the whole array";
  if (text.startsWith("manual")) return "each device has its own array, as the program says";
  return "";
}

/** `mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)), [{'x'}, {'y'}]` */
function parseMeshSharding(text) {
  const match = /^mesh\[([^\]]*)\](?:,?\s*device_ids=\(([^[\]]*|\[[^\]]*\](?:T\([\d,]*\))?)\))?,?\s*(.*)$/s.exec(text);
  if (!match) return { text, note: "a form that this page does not know" };
  const ids = match[2]?.startsWith("[") ? iotaDevices(match[2])?.devices : match[2]?.split(",").map(Number);
  return shardingOnMesh(text, { axes: parseAxes(match[1]), ids }, match[3]);
}

/** `'x'=4,'y'=2` */
function parseAxes(text) {
  return Array.from(text.matchAll(/['"]?([^'",=\s]+)['"]?\s*=\s*(\d+)/g), ([, name, size]) => ({
    name,
    size: Number(size),
  }));
}

/** The meshes of the module: `mesh = #sdy.mesh<["x"=4, "y"=2]>`. */
function shardyMeshes(program) {
  if (!program.meshes) {
    const text = (program.moduleAttr("frontend_attributes") ?? "").replaceAll('\\"', '"');
    const found = text.matchAll(/([\w.$-]+)"?\s*=\s*#sdy\.mesh<\[([^\]]*)\](?:,\s*device_ids\s*=\s*\[([^\]]*)\])?>/g);
    program.meshes = new Map(
      Array.from(found, ([, name, axes, ids]) => [name, { axes: parseAxes(axes), ids: ids?.split(",").map(Number) }]),
    );
  }
  return program.meshes;
}

/** `#sdy.sharding<@mesh, [{"x"}, {}]>`, and lists of them for several results. */
function parseShardy(text, meshes) {
  const found = text.matchAll(/<@?([\w.$-]+),\s*(\[(?:\{[^}]*\}|[^\]{}])*\][^>]*)>/g);
  const parse = ([whole, name, rest]) => {
    const mesh = meshes.get(name);
    return mesh
      ? shardingOnMesh(whole, mesh, rest)
      : { text: whole, note: `the module does not define the mesh ${name}` };
  };
  return Array.from(found, parse);
}

/** A sharding whose dimensions name axes: `[{'x'}, {'y':(1)2, ?}], replicated={'z'}`. */
function shardingOnMesh(text, mesh, rest) {
  const sizes = mesh.axes.map((axis) => axis.size);
  const total = product(sizes);
  if (!rest.startsWith("[")) return { text, note: describeWord(rest) };
  const devices = mesh.ids?.length === total ? mesh.ids : Array.from({ length: total }, (_, device) => device);
  const lists = Array.from(rest.slice(0, rest.indexOf("]")).matchAll(/\{([^}]*)\}/g), ([, axes]) => axes);
  const dims = lists.map((list) =>
    Array.from(list.matchAll(/['"]([^'"]+)['"](?::\((\d+)\)(\d+))?/g), ([, name, pre, size]) => {
      const at = mesh.axes.findIndex((axis) => axis.name === name);
      const whole = sizes[at] ?? 1;
      // A part of an axis: `pre` parts come before it in the axis.
      return { at, size: size ? Number(size) : whole, below: size ? whole / (Number(pre) * Number(size)) : 1 };
    }),
  );
  const counts = dims.map((axes) => product(axes.map((axis) => axis.size)));
  const shardOf = (position) => {
    const index = unravel(position, sizes);
    const part = (axis) => Math.floor((index[axis.at] ?? 0) / axis.below) % axis.size;
    return dims.map((axes) => axes.reduce((shard, axis) => shard * axis.size + part(axis), 0));
  };
  const shards = new Map(devices.map((device, position) => [device, shardOf(position)]));
  const names = mesh.axes.map((axis) => `${axis.name}=${axis.size}`).join(", ");
  const others = rest.slice(rest.indexOf("]") + 1).replace(/^,\s*|,?\s*metadata=.*$/gs, "");
  return {
    text,
    counts,
    shards,
    grid: sizes,
    order: devices,
    note: [`mesh ${names}`, others].filter(Boolean).join("; "),
  };
}

/** The groups of devices of a collective: lists of device numbers; `null` for another form. */
function parseGroups(text, numDevices) {
  text = text.trim();
  if (text === "{}") return [Array.from({ length: numDevices }, (_, device) => device)];
  if (text.startsWith("{"))
    return splitTop(text.slice(1, -1)).map((group) => group.slice(1, -1).split(",").map(Number));
  const iota = /^\[([\d,]+)\]<=(.*)$/.exec(text);
  if (iota) {
    const listed = iotaDevices(iota[2]);
    const size = Number(iota[1].split(",").at(-1));
    if (!listed || !size) return null;
    return Array.from({ length: listed.devices.length / size }, (_, at) =>
      listed.devices.slice(at * size, (at + 1) * size),
    );
  }
  const mesh = /^mesh\[([^\]]*)\](.*)\{([^}]*)\}$/s.exec(text);
  if (!mesh) return null;
  const sharding = parseMeshSharding(`mesh[${mesh[1]}]${mesh[2].trim()}, [{${mesh[3]}}]`);
  if (!sharding.shards) return null;
  // Devices that differ only along the axes of the group are in one group.
  const axes = parseAxes(mesh[1]);
  const used = axes.map((axis) => new RegExp(`['"]${axis.name}['"]`).test(mesh[3]));
  const groups = new Map();
  sharding.order.forEach((device, position) => {
    const index = unravel(
      position,
      axes.map((axis) => axis.size),
    );
    const key = index.filter((_, at) => !used[at]).join();
    groups.set(key, [...(groups.get(key) || []), device]);
  });
  return [...groups.values()];
}

const hue = (index) => `--hue:${Math.round(index * 137.5 + 210) % 360}`;

/** Devices in a grid, `colorOf(device)` an index or `undefined`; `columns` a hint from the mesh. */
function deviceGrid(devices, columns, colorOf, titleOf) {
  const wide = columns > 1 && columns <= 32 ? columns : Math.min(16, devices.length);
  const cells = devices.slice(0, MAX_DRAWN_DEVICES).map((device) => {
    const color = colorOf(device);
    return h(
      `span.device${color === undefined ? ".none" : ""}`,
      { style: color === undefined ? "" : hue(color), title: titleOf(device) },
      String(device),
    );
  });
  const rest = devices.length - cells.length;
  return h(
    "div",
    {},
    h("div.devices", { style: `grid-template-columns:repeat(${wide}, minmax(0, 30px))` }, cells),
    rest > 0 && h("p.note", {}, `${plural(rest, "more device")} not drawn`),
  );
}

/** A sharding, drawn. `array` is the shape that it shards or, after partitioning, that of one shard; `null` if it is not known. */
function drawSharding(sharding, array, isPartitioned, note) {
  const title = h("code.sharding-text", {}, sharding.text);
  if (!sharding.shards) return h("div.sharding", {}, title, h("p.note", {}, sharding.note));
  const { counts, shards } = sharding;
  const indexOf = (shard) => shard.reduce((index, at, dim) => index * counts[dim] + at, 0);
  const isKnown = array?.dims.length === counts.length && array.dims.every((dim) => dim !== "?");
  const slice = (shard) => (isKnown ? `[${shard.map(range).join(", ")}]` : `shard (${shard.join(", ")})`);
  const range = (at, dim) => {
    const local = Number(array.dims[dim].replace("<=", ""));
    if (counts[dim] === 1) return ":";
    const size = isPartitioned ? local : Math.ceil(local / counts[dim]);
    const end = isPartitioned ? (at + 1) * size : Math.min(local, (at + 1) * size);
    return `${Math.min(at * size, end)}:${end}`;
  };
  const order = [...shards.keys()].sort((a, b) => a - b);
  const columns = sharding.grid && sharding.grid.length > 1 ? sharding.grid.at(-1) : 0;
  const hint = (device) => `device ${device}: ${slice(shards.get(device))}`;
  const holders = new Map();
  for (const device of order) {
    const index = indexOf(shards.get(device));
    holders.set(index, [...(holders.get(index) || []), device]);
  }
  const legend = [...holders]
    .sort((a, b) => a[0] - b[0])
    .slice(0, 8)
    .map(([index, devices]) =>
      h(
        "li",
        {},
        h("span.swatch", { style: hue(index) }),
        h("code", {}, slice(shards.get(devices[0]))),
        ` on ${deviceList(devices)}`,
      ),
    );
  const more = holders.size - legend.length;
  const total = product(counts);
  const summary =
    total === 1
      ? "replicated"
      : `${counts.join(" × ")} = ${total} shards, each on ${plural(shards.size / total, "device")}`;
  return h(
    "div.sharding",
    {},
    title,
    h("p.note", {}, [summary, sharding.note, note].filter(Boolean).join("; ")),
    deviceGrid(sharding.order ?? order, columns, (device) => indexOf(shards.get(device)), hint),
    h("ul.legend", {}, legend, more > 0 && h("li.note", {}, `${plural(more, "more shard")}`)),
  );
}

function deviceList(devices) {
  const shown = devices.slice(0, 8).join(", ");
  return devices.length > 8 ? `${shown}, … (${devices.length})` : shown;
}

/** Groups of devices, drawn. */
function drawGroups(groups) {
  const groupOf = new Map(groups.flatMap((group, index) => group.map((device) => [device, index])));
  const order = [...groupOf.keys()].sort((a, b) => a - b);
  return h(
    "div.sharding",
    {},
    h("p.note", {}, `${plural(groups.length, "group")} of ${plural(groups[0]?.length ?? 0, "device")}`),
    deviceGrid(
      order,
      groups[0]?.length ?? 0,
      (device) => groupOf.get(device),
      (device) => `device ${device}: group ${groupOf.get(device)}`,
    ),
  );
}
