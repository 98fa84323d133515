// Draws the graph from the page's data: composites are laid out from the inside out, each as a flat graph of its own.
// dagre's own clusters are not used: an edge that ends at one makes it throw (dagre#238).
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 216;
const HEAD = 28;
const LINE = 16;
const FOOT = 10;
const PAD = 14;
// A graph that is a little too wide is drawn smaller rather than cut off.
const SMALLEST = 0.75;
const MARKS = { failed: "✕", running: "▶", waiting: "◔", done: "✓", idle: "○" };
const cache = new Map();
let drawn = "";
let drawnFor = 0;
let sought = "";

function make(name, attributes, parent, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

const ruler = document.createElement("canvas").getContext("2d");

// The text, cut where it is wider than `room` pixels.
function fit(text, room) {
  ruler.font = `600 12.5px ${getComputedStyle(document.body).fontFamily}`;
  if (ruler.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && ruler.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return `${text.slice(0, length)}…`;
}

const heightOf = (node) => HEAD + Math.max(1, node.lines.length) * LINE + FOOT;

// The node on the way from `key` outwards that lies directly in `parent`; empty if none does.
function liftTo(nodes, key, parent) {
  for (let at = key; at; at = nodes.get(at).parent) if (nodes.get(at).parent === parent) return at;
  return "";
}

// Lays out what lies directly in `parent`; returns its size, and sets x and y of each node, relative to it.
function layOut(data, nodes, parent, places) {
  const inside = data.nodes.filter((node) => node.parent === parent);
  const graph = new dagre.graphlib.Graph({ multigraph: false });
  graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 30, marginx: PAD, marginy: PAD, ranker: "tight-tree" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of inside) {
    const size = node.open ? layOut(data, nodes, node.key, places) : { width: WIDTH, height: heightOf(node) };
    graph.setNode(node.key, size);
  }
  for (const edge of data.edges) {
    const source = liftTo(nodes, edge.source, parent);
    const target = liftTo(nodes, edge.target, parent);
    if (source && target && source !== target) graph.setEdge(source, target);
  }
  const key = JSON.stringify([parent, graph.nodes().map((name) => [name, graph.node(name).width, graph.node(name).height]), graph.edges()]);
  if (!cache.has(key)) {
    dagre.layout(graph);
    const found = graph.nodes().map((name) => [name, { ...graph.node(name) }]);
    if (cache.size > 500) cache.clear();
    cache.set(key, { found, width: graph.graph().width, height: graph.graph().height });
  }
  const { found, width, height } = cache.get(key);
  const head = parent ? HEAD : 0;
  for (const [name, at] of found) places.set(name, { x: at.x - at.width / 2, y: at.y - at.height / 2 + head, width: at.width, height: at.height });
  const least = parent ? WIDTH : 0;
  return { width: Math.max(least, Number.isFinite(width) ? width : least), height: (Number.isFinite(height) ? height : 0) + head };
}

function absolute(nodes, places, key) {
  const own = places.get(key);
  let { x, y } = own;
  for (let at = nodes.get(key).parent; at; at = nodes.get(at).parent) {
    x += places.get(at).x;
    y += places.get(at).y;
  }
  return { x, y, width: own.width, height: own.height };
}

function follow(address) {
  if (address) document.dispatchEvent(new CustomEvent("beam-swap", { detail: address.href }));
}

const links = (kind, at) => document.querySelector(`#live_graph a[data-${kind}="${at}"]`);

function drawNode(layer, node, at, box) {
  const link = make("a", { class: `node ${node.state}${node.chosen ? " chosen" : ""}${node.open ? " open" : ""}${node.alarm ? " alarm" : ""}`, "data-at": at, href: links("node", at).href, tabindex: "-1" }, layer);
  make("title", {}, link, `${node.name}\n${node.state}`);
  if (node.alarm) link.setAttribute("aria-description", node.alarm);
  make("rect", { class: "box", x: box.x, y: box.y, width: box.width, height: box.height, rx: 6 }, link);
  make("rect", { class: "edge-mark", x: box.x, y: box.y + 4, width: 4, height: box.height - 8, rx: 2 }, link);
  make("text", { class: "mark", x: box.x + 12, y: box.y + 20, "aria-hidden": "true" }, link, MARKS[node.state]);
  const room = box.width - (node.composite ? 66 : 38) - (node.alarm ? 14 : 0);
  if (node.alarm) make("text", { class: "alarm-mark", x: box.x + box.width - (node.composite ? 44 : 18), y: box.y + 20, "aria-hidden": "true" }, link, "!");
  make("text", { class: "label", x: box.x + 30, y: box.y + 20 }, link, fit(node.label, room));
  node.lines.forEach((line, number) => {
    if (!node.open) make("text", { class: "figures", x: box.x + 30, y: box.y + HEAD + 9 + number * LINE }, link, line);
  });
  if (!node.open) {
    make("rect", { class: "rail", x: box.x + 8, y: box.y + box.height - 7, width: box.width - 16, height: 3, rx: 1.5 }, link);
    make("rect", { class: "share", x: box.x + 8, y: box.y + box.height - 7, width: Math.max(0, (box.width - 16) * node.share), height: 3, rx: 1.5 }, link);
  }
  link.addEventListener("click", (event) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    follow(links("node", at));
  });
  if (node.composite) drawFold(layer, node, at, box);
}

function drawFold(layer, node, at, box) {
  const fold = make("a", { class: "fold", href: links("toggle", at).href, tabindex: "-1", "aria-label": `${node.open ? "Close" : "Open"} ${node.name}` }, layer);
  make("title", {}, fold, node.open ? "close it (key e)" : `open its ${node.parts} parts (key e)`);
  make("rect", { x: box.x + box.width - 30, y: box.y + 4, width: 24, height: 24, rx: 4 }, fold);
  make("text", { x: box.x + box.width - 18, y: box.y + 20.5, "text-anchor": "middle" }, fold, node.open ? "−" : "+");
  fold.addEventListener("click", (event) => {
    event.preventDefault();
    follow(links("toggle", at));
  });
}

function drawEdge(layer, labels, edge, from, to) {
  const x1 = from.x + from.width / 2;
  const y1 = from.y + from.height;
  const x2 = to.x + to.width / 2;
  const y2 = to.y;
  const bend = Math.max(18, Math.abs(y2 - y1) / 2);
  const group = make("g", { class: edge.side ? "flow side" : "flow" }, layer);
  make("title", {}, group, edge.side ? `side input\n${edge.name}` : edge.name);
  make("path", { d: `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2 - 5}`, "stroke-width": edge.width, "marker-end": "url(#arrow)" }, group);
  if (edge.label) make("text", { class: "amount", x: (x1 + x2) / 2 + 6, y: (y1 + y2) / 2 + 4 }, labels, edge.label);
}

function draw(canvas, data) {
  const nodes = new Map(data.nodes.map((node) => [node.key, node]));
  const places = new Map();
  const size = layOut(data, nodes, "", places);
  const focused = canvas.contains(document.activeElement) ? document.activeElement.dataset.at : null;
  const scale = Math.max(SMALLEST, Math.min(1, canvas.clientWidth / size.width));
  const svg = make("svg", { width: size.width * scale, height: size.height * scale, viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": "Graph of the pipeline; the table of steps says the same" });
  const arrow = make("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 5, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, make("defs", {}, svg));
  make("path", { d: "M0,0 L8,4 L0,8 z" }, arrow);
  const boxes = data.nodes.map((node) => absolute(nodes, places, node.key));
  const at = new Map(data.nodes.map((node, index) => [node.key, boxes[index]]));
  const back = make("g", {}, svg);
  const flows = make("g", {}, svg);
  const front = make("g", {}, svg);
  const labels = make("g", {}, svg);
  data.nodes.forEach((node, index) => drawNode(node.open ? back : front, node, index, boxes[index]));
  for (const edge of data.edges) drawEdge(flows, labels, edge, at.get(edge.source), at.get(edge.target));
  canvas.replaceChildren(svg);
  const stop = svg.querySelector(focused === null ? ".node.chosen, .node" : `.node[data-at="${focused}"]`);
  if (stop) stop.setAttribute("tabindex", "0");
  if (stop && focused !== null) stop.focus({ preventScroll: true });
  seek(canvas, data, at, scale);
}

// The step that failed, or the first that a sentence warns of, is to be seen: once, since the reader may look elsewhere.
function seek(canvas, data, at, scale) {
  const closed = data.nodes.filter((node) => !node.open);
  const wanted = closed.find((node) => node.state === "failed") || (sought ? null : closed.find((node) => node.alarm));
  if (wanted && wanted.key !== sought) {
    const box = at.get(wanted.key);
    canvas.scrollTo((box.x + box.width / 2) * scale - canvas.clientWidth / 2, (box.y + box.height / 2) * scale - canvas.clientHeight / 2);
  }
  sought = wanted ? wanted.key : sought || "none";
}

// One stop of the Tab key for the graph; arrows go from step to step.
function onKey(event) {
  const node = event.target.closest(".node");
  if (!node) return;
  const all = [...event.currentTarget.querySelectorAll(".node")].sort((a, b) => a.dataset.at - b.dataset.at);
  const place = all.indexOf(node);
  const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
  let next = null;
  if (event.key in steps) next = all[place + steps[event.key]];
  else if (event.key === "Home") next = all[0];
  else if (event.key === "End") next = all[all.length - 1];
  else if (event.key === "e") follow(links("toggle", node.dataset.at));
  else return;
  event.preventDefault();
  if (!next) return;
  node.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
  next.scrollIntoView({ block: "nearest", inline: "nearest" });
}

export function drawGraph() {
  const canvas = document.getElementById("canvas");
  if (!canvas) return;
  const source = document.getElementById("graph-data");
  const text = source ? source.textContent : "";
  if (text === drawn && canvas.firstChild) return;
  if (!canvas.dataset.listens) {
    canvas.dataset.listens = "yes";
    canvas.addEventListener("keydown", onKey);
    new ResizeObserver(() => {
      if (canvas.clientWidth === drawnFor) return;
      drawn = "";
      drawGraph();
    }).observe(canvas);
  }
  drawn = text;
  drawnFor = canvas.clientWidth;
  const began = performance.now();
  if (source) draw(canvas, JSON.parse(text));
  else canvas.replaceChildren();
  // Is seen among the timings of the browser's tools.
  performance.clearMeasures("graph");
  performance.measure("graph", { start: began });
}
