// What a page adds to the graph that the server has drawn: a width that fits, arrow keys, and what is to be seen first.
// A graph that is a little too wide is shown smaller rather than cut off.
const SMALLEST = 0.75;
let sought = "";

// The step that failed, or the first that a sentence warns of, is to be seen: once, since the reader may look elsewhere.
function seek(canvas) {
  const wanted = canvas.querySelector(".node.failed:not(.open)") || (sought ? null : canvas.querySelector(".node.alarm"));
  if (wanted && wanted.id !== sought) {
    const box = wanted.getBoundingClientRect();
    const around = canvas.getBoundingClientRect();
    canvas.scrollBy(box.x + box.width / 2 - around.x - around.width / 2, box.y + box.height / 2 - around.y - around.height / 2);
  }
  sought = wanted ? wanted.id : sought || "none";
}

// One stop of the Tab key for the graph; arrows go from step to step, downwards.
function onKey(event) {
  const node = event.target.closest(".node");
  if (!node) return;
  const place = (one) => one.querySelector("rect").getBBox();
  const all = [...event.currentTarget.querySelectorAll(".node")].sort((a, b) => place(a).y - place(b).y || place(a).x - place(b).x);
  const at = all.indexOf(node);
  const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
  const fold = node.nextElementSibling;
  let next = null;
  if (event.key in steps) next = all[at + steps[event.key]];
  else if (event.key === "Home") next = all[0];
  else if (event.key === "End") next = all[all.length - 1];
  else if (event.key === "e" && fold && fold.matches(".fold")) fold.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
  else return;
  event.preventDefault();
  if (!next) return;
  node.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
  next.scrollIntoView({ block: "nearest", inline: "nearest" });
}

export function tendGraph() {
  const canvas = document.getElementById("canvas");
  const svg = canvas && canvas.querySelector("svg");
  if (!svg) return;
  if (!canvas.dataset.listens) {
    canvas.dataset.listens = "yes";
    canvas.addEventListener("keydown", onKey);
    new ResizeObserver(tendGraph).observe(canvas);
  }
  const whole = svg.viewBox.baseVal.width;
  svg.style.width = `${Math.max(SMALLEST, Math.min(1, canvas.clientWidth / whole)) * whole}px`;
  for (const link of svg.querySelectorAll("a")) link.setAttribute("tabindex", "-1");
  const stop = svg.querySelector(".node:focus") || svg.querySelector(".node.chosen") || svg.querySelector(".node");
  if (stop) stop.setAttribute("tabindex", "0");
  seek(canvas);
}
