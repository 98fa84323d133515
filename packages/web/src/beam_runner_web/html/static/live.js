// Keeps a page as a reload would show it: one stream a page, closed while nobody sees it.
import { tendGraph } from "./graph.js";
import { followLog } from "./log.js";
import { showLocalTimes } from "./times.js";

const AWAY = "The server does not answer: this is what was last known";
const GONE = "The job server does not know this job any more";
const STREAMS = 3;
const ASK_MS = 2000;
let stream = null;
let opening = false;
let over = false;
// Counts up at each close: what was begun before does not count any more.
let turn = 0;
let leavePlace = () => {};

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
  tendGraph();
  followLog();
  showLocalTimes();
}

// A browser has six connections to a server for all its tabs, and a stream takes one. So a few pages have streams, and the
// others ask every two seconds. (Without locks, as on a page that is not from this machine, each has a stream.)
async function takePlace() {
  if (!navigator.locks) return true;
  for (let number = 0; number < STREAMS; number += 1) {
    const taken = await new Promise((answer) => {
      navigator.locks.request(`beam-web-stream-${number}`, { ifAvailable: true }, (lock) => {
        answer(Boolean(lock));
        return lock ? new Promise((done) => (leavePlace = done)) : undefined;
      });
    });
    if (taken) return true;
  }
  return false;
}

async function open() {
  const address = main().dataset.events;
  if (stream || opening || over || !address || document.hidden) return;
  opening = true;
  const mine = turn;
  const placed = await takePlace();
  opening = false;
  if (mine !== turn || document.hidden) {
    leavePlace();
    if (!document.hidden) open();
  } else if (placed) listen(address);
  else ask(address, mine);
}

function listen(address) {
  stream = new EventSource(address);
  stream.addEventListener("parts", (event) => {
    say("");
    update(JSON.parse(event.data));
  });
  stream.addEventListener("away", () => say(AWAY));
  stream.addEventListener("gone", () => {
    say(GONE);
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

async function ask(address, mine) {
  try {
    const answer = await fetch(`${address}${address.includes("?") ? "&" : "?"}once=1`);
    if (answer.status === 404 && mine === turn) {
      over = true;
      return say(GONE);
    }
    if (!answer.ok) throw new Error("no parts");
    const found = await answer.json();
    if (mine !== turn) return;
    say("");
    update(found.parts);
    over = found.over;
  } catch {
    if (mine !== turn) return;
    say(AWAY);
  }
  setTimeout(() => mine === turn && open(), ASK_MS);
}

function close() {
  turn += 1;
  if (stream) stream.close();
  stream = null;
  leavePlace();
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
    tendGraph();
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
  swap(link.getAttribute("href"), true);
});
window.addEventListener("popstate", () => swap(location.href, false));
document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
window.addEventListener("pagehide", close);
window.addEventListener("pageshow", open);

tendGraph();
followLog();
showLocalTimes();
open();
