// The table of all nodes: only the rows that can be seen are in the page, so that 5,000 cost as little as 50.
import { age } from "./ages.js";

const OVERSCAN = 8;
const NAME = 0, STATE = 1, SINCE = 2, PENDING = 3, PARKED = 4, HELD = 5, AGENT = 6, NOTE = 7;
const number = new Intl.NumberFormat("en");
// Control characters, and those that turn the direction of text: shown, as on the pages without script.
const UNSEEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const seen = (text) => text.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

export class NodeTable {
  #rows = new Map();
  #shown = [];
  #drawn = new Map();
  #sort = { column: NAME, up: true };
  #active = null;
  #later = 0;

  constructor(scroller) {
    this.scroller = scroller;
    this.table = scroller.querySelector("table");
    this.body = this.table.tBodies[0];
    this.form = document.querySelector("form.filter");
    this.search = this.form.elements.q;
    this.state = this.form.elements.state;
    this.count = document.getElementById("count");
    this.states = new Map([...this.state.options].filter((o) => o.value).map((o) => [o.value, o.text]));
    this.order = [...this.states.keys()];
  }

  /** Take over from the page without script. */
  begin(lines) {
    document.getElementById("pager")?.remove();
    document.documentElement.classList.add("virtual");
    this.form.querySelector("button").hidden = true;
    this.body.replaceChildren();
    this.above = this.body.insertRow();
    this.below = this.body.insertRow();
    for (const spacer of [this.above, this.below]) {
      spacer.className = "spacer";
      spacer.setAttribute("aria-hidden", "true");
    }
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.search.addEventListener("input", () => this.#filtered());
    this.state.addEventListener("change", () => this.#filtered());
    this.scroller.addEventListener("scroll", () => this.#draw(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(this.scroller);
    this.#headings();
    this.load(lines);
  }

  load(lines) {
    this.#rows = new Map(lines.map((line) => [line[NAME], line]));
    this.#arrange();
  }

  change({ lines, removed }) {
    for (const name of removed) this.#rows.delete(name);
    for (const line of lines) this.#rows.set(line[NAME], line);
    this.#arrange();
  }

  /** Ages of the rows that are in the page. */
  tick() {
    for (const [name, row] of this.#drawn) this.#fill(row, this.#rows.get(name));
  }

  // ---- which rows, in which order

  #filtered() {
    const query = new URLSearchParams();
    if (this.search.value) query.set("q", this.search.value);
    if (this.state.value) query.set("state", this.state.value);
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
    this.scroller.scrollTop = 0;
    this.#active = null;
    this.#arrange();
  }

  #arrange() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = this.state.value;
    this.#shown = [...this.#rows.values()].filter((line) => {
      if (state && line[STATE] !== state) return false;
      const where = `${line[NAME]}\n${line[AGENT]}\n${line[NOTE]}`.toLowerCase();
      return words.every((word) => where.includes(word));
    });
    const { column, up } = this.#sort;
    const key = column === STATE ? (line) => this.order.indexOf(line[STATE]) : (line) => line[column];
    this.#shown.sort((a, b) => {
      const [one, other] = [key(a), key(b)];
      const order = one < other ? -1 : one > other ? 1 : 0;
      return (up ? order : -order) || (a[NAME] < b[NAME] ? -1 : 1);
    });
    this.table.setAttribute("aria-rowcount", this.#shown.length + 1);
    clearTimeout(this.#later);
    const text = `${number.format(this.#shown.length)} of ${number.format(this.#rows.size)} nodes`;
    this.#later = setTimeout(() => {
      if (this.count.textContent !== text) this.count.textContent = text;
    }, 150);
    this.#draw();
  }

  #headings() {
    [...this.table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      cell.replaceChildren(button);
      button.addEventListener("click", () => {
        const same = this.#sort.column === column;
        // Large numbers first: they are what one looks for. Of moments, the oldest.
        this.#sort = { column, up: same ? !this.#sort.up : ![PENDING, PARKED, HELD].includes(column) };
        this.#marks();
        this.#arrange();
      });
    });
    this.#marks();
  }

  #marks() {
    [...this.table.tHead.rows[0].cells].forEach((cell, column) => {
      if (column !== this.#sort.column) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", this.#sort.up ? "ascending" : "descending");
    });
  }

  // ---- rows in the page

  get #height() {
    return parseFloat(getComputedStyle(this.scroller).getPropertyValue("--row")) || 40;
  }

  #draw() {
    const height = this.#height;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / height) - OVERSCAN);
    const room = Math.ceil(this.scroller.clientHeight / height) + 2 * OVERSCAN;
    const end = Math.min(this.#shown.length, first + room);
    const focused = this.body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.name : null;
    const wanted = new Map();
    for (let at = first; at < end; at++) wanted.set(this.#shown[at][NAME], at);
    for (const [name, row] of this.#drawn) {
      if (!wanted.has(name)) {
        row.remove();
        this.#drawn.delete(name);
      }
    }
    this.above.style.height = `${first * height}px`;
    this.below.style.height = `${(this.#shown.length - end) * height}px`;
    if (!wanted.has(this.#active)) this.#active = this.#shown[first + (first ? OVERSCAN : 0)]?.[NAME] ?? null;
    let before = this.above;
    for (const [name, at] of wanted) {
      let row = this.#drawn.get(name);
      if (!row) this.#drawn.set(name, (row = this.#row(name)));
      if (before.nextSibling !== row) before.after(row);
      this.#fill(row, this.#shown[at]);
      row.setAttribute("aria-rowindex", at + 2);
      row.querySelector("a").tabIndex = name === this.#active ? 0 : -1;
      before = row;
    }
    // A row that was moved loses the focus.
    if (focused && this.#drawn.has(focused)) this.#drawn.get(focused).querySelector("a").focus({ preventScroll: true });
  }

  #row(name) {
    const row = document.createElement("tr");
    row.dataset.name = name;
    const head = document.createElement("th");
    head.scope = "row";
    const link = document.createElement("a");
    link.textContent = name;
    link.title = name;
    link.href = `/console/nodes/${encodeURIComponent(name)}`;
    head.append(link);
    row.append(head);
    for (const column of [STATE, SINCE, PENDING, PARKED, HELD, AGENT]) {
      const cell = row.insertCell();
      cell.className = { [STATE]: "", [AGENT]: "agent" }[column] ?? "n";
      cell.dataset.label = this.table.tHead.rows[0].cells[column].textContent;
    }
    row.cells[STATE].append(document.createElement("span"));
    return row;
  }

  #fill(row, line) {
    const put = (cell, text) => {
      if (cell.textContent !== text) cell.textContent = text;
    };
    const badge = row.cells[STATE].firstChild;
    put(badge, this.states.get(line[STATE]) ?? line[STATE]);
    badge.className = `state ${line[STATE]}`;
    badge.title = seen(line[NOTE]);
    put(row.cells[SINCE], line[SINCE] ? age(line[SINCE]) : "–");
    for (const column of [PENDING, PARKED, HELD]) {
      put(row.cells[column], number.format(line[column]));
      row.cells[column].classList.toggle("zero", !line[column]);
    }
    put(row.cells[AGENT], seen(line[AGENT]));
  }

  // ---- keys: one stop for Tab, arrows from row to row

  #key(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.#height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const name = document.activeElement.closest("tr")?.dataset.name;
    const at = this.#shown.findIndex((line) => line[NAME] === name);
    const to = Math.max(0, Math.min(this.#shown.length - 1, at + steps[event.key]));
    this.#active = this.#shown[to][NAME];
    const height = this.#height;
    const room = this.scroller.clientHeight - this.table.tHead.offsetHeight;
    if (to * height < this.scroller.scrollTop) this.scroller.scrollTop = to * height;
    else if ((to + 1) * height > this.scroller.scrollTop + room) this.scroller.scrollTop = (to + 1) * height - room;
    this.#draw();
    this.#drawn.get(this.#active)?.querySelector("a").focus({ preventScroll: true });
  }
}
