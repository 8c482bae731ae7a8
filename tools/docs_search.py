"""A hook of MkDocs: the search of the site also works where pages are read from files, without a network.

There browsers refuse web workers, in which the theme searches. The theme's own answer is a script from the network; this one
comes with the pages.
"""

from __future__ import annotations

import re
from typing import Any

_FROM_THE_NETWORK = re.compile(r'<script src="https://[^"]*iframe-worker[^"]*"></script>')

IN_A_FRAME = """<script>
if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.documentElement.append(frame)
    this.inside = frame.contentWindow
    this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
    this.inside.importScripts = (...urls) => Promise.all(urls.map(each => this.load(each)))
    this.ready = this.load(url)
  }
  load(url) {
    const script = this.inside.document.createElement("script")
    script.src = new URL(url, location.href)
    const loaded = new Promise((done, failed) => { script.onload = done; script.onerror = failed })
    this.inside.document.documentElement.append(script)
    return loaded
  }
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
  }
  terminate() { this.inside.frameElement.remove() }
}
</script>"""


def on_post_page(output: str, **_: Any) -> str:
    return _FROM_THE_NETWORK.sub(lambda _: IN_A_FRAME, output)


def on_post_template(output_content: str, **_: Any) -> str:
    return _FROM_THE_NETWORK.sub(lambda _: IN_A_FRAME, output_content)
