/* SPDX-License-Identifier: MIT
   Browsers start no worker from a page on the file system, and search is one. There, a hidden frame does its work. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      window.addEventListener("message", event => {
        if (event.source !== inside) return;
        const message = new MessageEvent("message", {data: event.data});
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
      this.ready = new Promise(resolve => {
        inside.postMessage = inside.postMessage.bind(inside);
        const send = inside.postMessage;
        this.send = message => send(message, "*");
        // To the worker's own script, posting means posting out, and scripts are fetched one after another.
        inside.importScripts = (...urls) => urls.reduce((before, next) => before.then(() => load(inside.document, next)),
          Promise.resolve());
        inside.eval("postMessage = message => parent.postMessage(message, '*')");
        load(inside.document, url).then(resolve);
      });
    }

    postMessage(message) {
      this.ready.then(() => this.send(message));
    }

    terminate() {
      this.frame.remove();
    }
  };

  function load(into, url) {
    return new Promise((resolve, reject) => {
      const script = into.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`no script at ${url}`));
      into.body.appendChild(script);
    });
  }
}
