// A layered drawing of a graph without cycles, after Sugiyama: layers by longest path, order by barycenters, then places.

const GAP_X = 18;
const GAP_Y = 42;
const SWEEPS = 8;

/**
 * Places nodes `{id, width, height}` so that edges `[from, to]` go downward. Returns `{places: Map(id -> {x, y}), paths, width,
 * height}`; `x` and `y` are the middle of the top edge, a path is a list of points.
 */
function layeredLayout(nodes, edges) {
  const layerOf = layersOf(
    nodes.map((node) => node.id),
    edges,
  );
  const vertices = new Map(
    nodes.map((node) => [node.id, { ...node, layer: layerOf.get(node.id), above: [], below: [] }]),
  );
  const routes = edges.map(([from, to]) => route(vertices, vertices.get(from), vertices.get(to)));
  const layers = [];
  for (const vertex of vertices.values()) (layers[vertex.layer] ??= []).push(vertex);
  orderLayers(layers);
  placeAcross(layers);
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(...layer.map((vertex) => vertex.height));
    layer.forEach((vertex) => {
      vertex.y = y;
      vertex.bottom = y + vertex.height;
      vertex.layerBottom = y + height;
    });
    y += height + GAP_Y;
  }
  const left = Math.min(...[...vertices.values()].map((vertex) => vertex.x - vertex.width / 2));
  vertices.forEach((vertex) => {
    vertex.x -= left;
  });
  const paths = routes.map((route) =>
    route.flatMap((vertex, at) => {
      const points = [];
      if (at > 0) points.push([vertex.x, vertex.y]);
      if (at < route.length - 1) points.push([vertex.x, vertex.isBend ? vertex.layerBottom : vertex.bottom]);
      return points;
    }),
  );
  const width = Math.max(...[...vertices.values()].map((vertex) => vertex.x + vertex.width / 2));
  return { places: new Map(nodes.map(({ id }) => [id, vertices.get(id)])), paths, width, height: y - GAP_Y };
}

/** The layer of each node: below all it has an edge from, and no higher than needed to be near those it has an edge to. */
function layersOf(ids, edges) {
  const below = new Map(ids.map((id) => [id, []]));
  const degree = new Map(ids.map((id) => [id, 0]));
  for (const [from, to] of edges) {
    below.get(from).push(to);
    degree.set(to, degree.get(to) + 1);
  }
  const layer = new Map(ids.map((id) => [id, 0]));
  const order = ids.filter((id) => degree.get(id) === 0);
  for (const id of order) {
    for (const next of below.get(id)) {
      layer.set(next, Math.max(layer.get(next), layer.get(id) + 1));
      degree.set(next, degree.get(next) - 1);
      if (degree.get(next) === 0) order.push(next);
    }
  }
  for (const id of order.reverse()) {
    if (below.get(id).length) layer.set(id, Math.min(...below.get(id).map((next) => layer.get(next))) - 1);
  }
  const top = Math.min(...layer.values());
  return new Map([...layer].map(([id, at]) => [id, at - top]));
}

/** The vertices of an edge: its ends, and a bend in each layer between them. */
function route(vertices, from, to) {
  const route = [from];
  for (let layer = from.layer + 1; layer < to.layer; layer += 1) {
    const bend = { id: Symbol("bend"), width: 8, height: 0, layer, above: [], below: [], isBend: true };
    vertices.set(bend.id, bend);
    route.push(bend);
  }
  route.push(to);
  for (let at = 1; at < route.length; at += 1) {
    route[at - 1].below.push(route[at]);
    route[at].above.push(route[at - 1]);
  }
  return route;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Orders each layer by the mean position of neighbors in the layer above, then below, several times. */
function orderLayers(layers) {
  const number = (layer) =>
    layer.forEach((vertex, at) => {
      vertex.at = at;
    });
  layers.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : layers.slice().reverse()) {
      for (const vertex of layer) {
        const neighbors = down ? vertex.above : vertex.below;
        vertex.weight = neighbors.length ? mean(neighbors.map((neighbor) => neighbor.at)) : vertex.at;
      }
      layer.sort((a, b) => a.weight - b.weight);
      number(layer);
    }
  }
}

/** Moves each vertex toward the middle of its neighbors as far as the order of its layer allows. */
function placeAcross(layers) {
  for (const layer of layers) {
    let x = 0;
    for (const vertex of layer) {
      vertex.x = x + vertex.width / 2;
      x += vertex.width + GAP_X;
    }
    layer.forEach((vertex) => {
      vertex.x -= (x - GAP_X) / 2;
    });
  }
  for (let sweep = 0; sweep < 2 * SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : layers.slice().reverse()) {
      const wanted = layer.map((vertex) => {
        const neighbors = sweep > SWEEPS ? [...vertex.above, ...vertex.below] : down ? vertex.above : vertex.below;
        return neighbors.length ? mean(neighbors.map((neighbor) => neighbor.x)) : vertex.x;
      });
      spread(layer, wanted);
    }
  }
}

/** Places a layer near the wanted places, in order and without overlap: vertices that meet form a block at their mean. */
function spread(layer, wanted) {
  const blocks = [];
  layer.forEach((vertex, at) => {
    blocks.push({
      vertices: [vertex],
      starts: [vertex.width / 2],
      width: vertex.width,
      sum: wanted[at] - vertex.width / 2,
      count: 1,
    });
    while (blocks.length > 1) {
      const [a, b] = blocks.slice(-2);
      if (a.sum / a.count + a.width + GAP_X <= b.sum / b.count) break;
      const shift = a.width + GAP_X;
      a.vertices.push(...b.vertices);
      a.starts.push(...b.starts.map((start) => start + shift));
      a.sum += b.sum - b.count * shift;
      a.count += b.count;
      a.width = shift + b.width;
      blocks.pop();
    }
  });
  for (const block of blocks) {
    const left = block.sum / block.count;
    block.vertices.forEach((vertex, at) => {
      vertex.x = left + block.starts[at];
    });
  }
}
