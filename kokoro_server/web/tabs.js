// The tabs. The address names the one that is shown, so that it can be linked and reloaded.

export class Tabs {
  #tabs = [...document.querySelectorAll('[role="tab"]')];
  #skip = document.querySelector(".skip");
  #onShow;

  constructor(onShow) {
    this.#onShow = onShow;
    for (const tab of this.#tabs) {
      tab.addEventListener("click", (event) => this.#onClick(event, tab));
      tab.addEventListener("keydown", (event) => this.#onKey(event, tab));
    }
    addEventListener("hashchange", () => this.#follow());
    this.#show(this.#tabs[0]);
    this.#follow();
  }

  /** The name of the tab that is shown. */
  get shown() {
    return this.#tabs.find((tab) => tab.ariaSelected === "true").hash.slice(1);
  }

  #follow() {
    const tab = this.#tabs.find(({ hash }) => hash === (location.hash || this.#tabs[0].hash));
    if (tab && tab.ariaSelected !== "true") this.#show(tab);
  }

  #show(shown) {
    for (const tab of this.#tabs) {
      const isShown = tab === shown;
      tab.ariaSelected = String(isShown);
      tab.tabIndex = isShown ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !isShown;
    }
    this.#skip.href = shown.hash;
    this.#onShow(this.shown);
  }

  #onClick(event, tab) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // it opens in another tab or window
    event.preventDefault(); // following the link would take the focus away
    if (tab.hash !== location.hash) history.pushState(null, "", tab.hash);
    this.#follow();
  }

  #onKey(event, tab) {
    const place = this.#tabs.indexOf(tab);
    const [last, length] = [this.#tabs.length - 1, this.#tabs.length];
    const to = { ArrowLeft: (place + last) % length, ArrowRight: (place + 1) % length, Home: 0, End: last, " ": place };
    if (!(event.key in to)) return;
    event.preventDefault();
    const target = this.#tabs[to[event.key]];
    target.focus();
    target.click();
  }
}
