// Keeps a page as a reload would show it: one stream a page, closed while nobody sees it.
import { drawGraph } from "./graph.js";
import { followLog } from "./table.js";

const AWAY = "The server does not answer: this is what was last known";
let stream = null;
let over = false;

const main = () => document.getElementById("main");
const state = document.getElementById("link-state");

function say(text) {
  state.textContent = text;
  state.hidden = !text;
}

function morph(element, html) {
  Idiomorph.morph(element, html, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed: (old, fresh) => {
        if (old.nodeType !== Node.ELEMENT_NODE) return true;
        if (old.hasAttribute("data-keep")) return false;
        // What the reader has opened stays open.
        if (old.tagName === "DETAILS" && old.open) fresh.setAttribute("open", "");
        return true;
      },
    },
  });
}

function update(parts) {
  for (const [id, html] of Object.entries(parts)) {
    const element = document.getElementById(id);
    if (element) morph(element, html);
  }
  drawGraph();
  followLog();
}

function open() {
  const address = main().dataset.events;
  if (stream || over || !address || document.hidden) return;
  stream = new EventSource(address);
  stream.addEventListener("parts", (event) => {
    say("");
    update(JSON.parse(event.data));
  });
  stream.addEventListener("away", () => say(AWAY));
  stream.addEventListener("gone", () => {
    say("The job server does not know this job any more");
    close();
    over = true;
  });
  stream.addEventListener("end", () => {
    close();
    over = true;
  });
  stream.addEventListener("error", () => {
    say(AWAY);
    // After an answer that is no stream a browser gives up; we don't.
    if (stream && stream.readyState === EventSource.CLOSED) {
      close();
      setTimeout(open, 5000);
    }
  });
}

function close() {
  if (stream) stream.close();
  stream = null;
}

// Links that only change what is seen of this page: no reload, so that focus and scrolling stay.
async function swap(address, push) {
  close();
  try {
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    if (!answer.ok || !fresh) throw new Error("not a page");
    main().dataset.events = fresh.dataset.events || "";
    document.title = page.title;
    const wanted = new Set();
    for (const part of fresh.querySelectorAll("[id^=live_]")) {
      wanted.add(part.id);
      const element = document.getElementById(part.id);
      if (!element) throw new Error("another page");
      morph(element, part.innerHTML);
    }
    if (push) history.pushState(null, "", address);
    over = false;
    drawGraph();
    open();
  } catch {
    location.assign(address);
  }
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = event.target.closest && event.target.closest("a[data-swap]");
  if (!link) return;
  event.preventDefault();
  swap(link.href, true);
});
document.addEventListener("beam-swap", (event) => swap(event.detail, true));
window.addEventListener("popstate", () => swap(location.href, false));
document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
window.addEventListener("pagehide", close);
window.addEventListener("pageshow", open);

drawGraph();
followLog();
open();
