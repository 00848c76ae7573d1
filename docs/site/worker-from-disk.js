// A browser starts no worker for a page that was opened from a disk; the site's search is one.
// There, and only there, its script runs in a hidden frame of the page instead.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><title>search</title>");
      inside.document.close();
      inside.postMessage = (data) => this.answer(structuredClone(data));
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href).href;
      this.ready = new Promise((resolve) => {
        script.onload = resolve;
      });
      inside.document.head.appendChild(script);
    }

    answer(data) {
      setTimeout(() => this.onmessage && this.onmessage(new MessageEvent("message", { data })));
    }

    postMessage(data) {
      const copy = structuredClone(data);
      this.ready.then(() => this.frame.contentWindow.onmessage({ data: copy }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
