// Makes pages that are complete without it live: sections that changed are replaced, ages count on, 5,000 nodes scroll.
import { clockAt, showAges } from "./ages.js";
import { Live } from "./live.js";
import { NodeTable } from "./nodes.js";

const page = document.body.dataset;
// Markup comes from the hub, which escapes it; the policy lets nothing else be taken for markup.
const policy = window.trustedTypes?.createPolicy("console", { createHTML: (html) => html });
const markup = (html) => (policy ? policy.createHTML(html) : html);
const reads = (html) => new DOMParser().parseFromString(markup(html), "text/html");

clockAt(Number(page.at));

/** Put a newer element in the place of the one with its id; who has the focus inside keeps it. */
function replace(newer) {
  const old = newer.id && document.getElementById(newer.id);
  if (!old || old.outerHTML === newer.outerHTML) return;
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  showAges(newer);
  old.replaceWith(document.adoptNode(newer));
  if (!focused) return;
  const href = focused.getAttribute("href");
  const again = focused.id ? document.getElementById(focused.id) : newer.querySelector(`a[href="${CSS.escape(href ?? "")}"]`);
  again?.focus({ preventScroll: true });
}

const WHOSE = "main > .top > .hint";

/** The page as it is now: after a pause too long to be told what changed. */
async function loadAgain() {
  const answer = await fetch(location.href, { cache: "no-store" });
  if (!answer.ok) return;
  const newer = reads(await answer.text());
  const [ours, theirs] = [document, newer].map((each) => each.querySelector("script").getAttribute("src"));
  if (ours !== theirs) return location.reload(); // the hub is of another version now
  document.querySelector(WHOSE).replaceWith(document.adoptNode(newer.querySelector(WHOSE)));
  for (const name of page.wants.split(",")) {
    const section = newer.getElementById(name);
    if (section && name !== "nodes") replace(section);
  }
  const node = newer.getElementById("node");
  if (node && !document.getElementById("node").contains(document.activeElement?.closest("form"))) replace(node);
}

// ---- nodes

const scroller = document.getElementById("scroller");
const nodes = scroller ? new NodeTable(scroller) : null;
const one = document.getElementById("node")?.dataset.node;
let asked = 0;
let later = 0;

/** A node in depth is asked for about once a second at most; what changes meanwhile is seen at the end of it. */
function loadNodeSoon() {
  if (later) return;
  later = setTimeout(() => {
    later = 0;
    asked = Date.now();
    loadAgain();
  }, Math.max(0, asked + 900 - Date.now()));
}

async function loadNodes() {
  const answer = await fetch("/console/nodes.json", { cache: "no-store" });
  if (!answer.ok) return null;
  const found = await answer.json();
  clockAt(found.at);
  return found;
}

// ---- live

const button = document.getElementById("live");
const said = document.getElementById("said");

function state(name) {
  button.dataset.state = live?.wanted === false ? "paused" : name;
  button.textContent = { live: "Live", away: "Reconnecting", paused: "Paused" }[button.dataset.state];
}

const on = {
  state,
  section(data) {
    clockAt(data.at);
    const newer = reads(data.html).body.firstElementChild;
    if (newer) replace(newer);
  },
  nodes(data) {
    clockAt(data.at);
    nodes?.change(data);
    if (data.removed.includes(one)) location.reload(); // says that there is no such node
    else if (one && data.lines.some((line) => line[0] === one)) loadNodeSoon();
  },
  events(data) {
    const list = document.getElementById("events");
    document.querySelector("#happened .nothing")?.remove();
    list.prepend(...[...reads(`<ol>${data.html}</ol>`).querySelectorAll("li")].map((item) => document.adoptNode(item)));
    while (list.children.length > Number(list.dataset.shown)) list.lastElementChild.remove();
  },
  async reset() {
    await loadAgain();
    const found = nodes && (await loadNodes());
    if (found) nodes.load(found.lines);
  },
};

let live = null;
let after = page.after;
if (nodes) {
  const found = await loadNodes();
  if (found) {
    after = found.after;
    nodes.begin(found.lines);
  }
}
live = new Live(after, page.wants.split(","), on);
button.hidden = false;
button.addEventListener("click", () => {
  const paused = live.wanted;
  live.pause(paused);
  button.setAttribute("aria-pressed", String(!paused));
  state(paused ? "paused" : "away");
  said.textContent = paused ? "Updates are paused." : "Updates go on.";
});

showAges(document);
setInterval(() => {
  if (document.hidden) return;
  showAges(document);
  nodes?.tick();
}, 1000);
