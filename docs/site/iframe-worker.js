// Search in pages that are opened from the folder. Browsers start no web worker there, so this one runs the worker's
// script in a hidden frame: messages go both ways as they would to a worker. The theme asks for such a script by the
// name "iframe-worker"; with this one nothing is fetched from the network.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame
    #started

    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = "<!doctype html>"
      const ready = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }))
      document.documentElement.appendChild(frame)
      this.#started = ready.then(() => {
        this.#frame = frame.contentWindow
        this.#frame.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
        this.#frame.importScripts = async (...urls) => {
          for (const one of urls) await this.#load(one)
        }
        return this.#load(url)
      })
    }

    #load(url) {
      return new Promise((resolve, reject) => {
        const script = this.#frame.document.createElement("script")
        script.src = new URL(url, document.baseURI).href
        script.onload = resolve
        script.onerror = () => reject(new Error(`${url} cannot be loaded`))
        this.#frame.document.head.appendChild(script)
      })
    }

    async postMessage(data) {
      await this.#started
      this.#frame.dispatchEvent(new MessageEvent("message", { data }))
    }
  }
}
