// Helpers for elements.

/** An element with properties and content. Strings are text, never HTML; null is nothing. */
export function element(name, properties = {}, ...content) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...content.filter((part) => part !== null));
  return made;
}

/** Makes the browser save a file. */
export function save(name, content) {
  const link = element("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // some browsers read it only after a while
}

export function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
