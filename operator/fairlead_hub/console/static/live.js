// The stream of changes: one for each visible page. A hidden page closes it, because a browser has six connections to a
// host; when it is shown again it goes on after the last frame it has seen.

const RETRY_MS = 5000;

export class Live {
  #source = null;
  #after;
  #wants;
  #on;
  #timer = 0;
  #wanted = true;

  /** `on` has a function for each kind of frame, and `state` and `reset`. */
  constructor(after, wants, on) {
    this.#after = after;
    this.#wants = wants;
    this.#on = on;
    document.addEventListener("visibilitychange", () => this.#settle());
    window.addEventListener("pagehide", () => this.#close());
    this.#settle();
  }

  get wanted() {
    return this.#wanted;
  }

  pause(paused) {
    this.#wanted = !paused;
    this.#settle();
  }

  #settle() {
    clearTimeout(this.#timer);
    if (!this.#wanted || document.hidden) this.#close();
    else if (!this.#source) this.#open();
  }

  #open() {
    const query = new URLSearchParams({ after: this.#after, wants: this.#wants.join(",") });
    const source = (this.#source = new EventSource(`/console/stream?${query}`));
    source.onopen = () => this.#on.state("live");
    source.onerror = () => {
      this.#on.state("away");
      if (source.readyState === EventSource.CLOSED) {
        this.#close();
        this.#timer = setTimeout(() => this.#settle(), RETRY_MS);
      }
    };
    for (const name of this.#wants) {
      source.addEventListener(name, (event) => {
        this.#after = event.lastEventId;
        this.#on[name === "nodes" || name === "events" ? name : "section"](JSON.parse(event.data), name);
      });
    }
    for (const name of ["reset", "lag"]) source.addEventListener(name, () => this.#on.reset());
  }

  #close() {
    this.#source?.close();
    this.#source = null;
  }
}
