// The API key: asked for when the server wants one, and kept until the tab is closed.

const STORED = "kokoro-api-key";

let asking = null; // a promise of the user's answer

export function apiKey() {
  return sessionStorage.getItem(STORED) ?? "";
}

export function authorization() {
  return apiKey() ? { Authorization: `Bearer ${apiKey()}` } : {};
}

/** Asks for a key and keeps it; resolves to whether one was given. Calls meanwhile share the answer. */
export function askForKey() {
  asking ??= show().finally(() => {
    asking = null;
  });
  return asking;
}

function show() {
  const dialog = document.createElement("dialog");
  dialog.className = "key";
  dialog.setAttribute("aria-labelledby", "key-title");
  dialog.innerHTML = `
    <form>
      <h2 id="key-title">This server asks for an API key</h2>
      <p role="alert">${apiKey() ? "It does not take the one you gave." : ""}</p>
      <label for="key">Key</label>
      <input id="key" type="password" required pattern="[!-~]+" title="a key without spaces" autocomplete="off">
      <p class="small">It is kept until you close this tab.</p>
      <div class="row"><button type="button">Cancel</button><button class="primary" type="submit">Use it</button></div>
    </form>`;
  document.body.append(dialog);
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(STORED, dialog.querySelector("input").value);
    dialog.close("given");
  });
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "given");
    });
  });
}
