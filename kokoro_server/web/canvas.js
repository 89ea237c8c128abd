// Shared by the drawings.

/** Calls `draw` when the size or the colours change. */
export function onRedraw(canvas, draw) {
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

/** A clean sheet in the canvas's own CSS pixels, sharp on every screen. */
export function sheet(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  const [columns, rows] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

export function colour(canvas, name) {
  return getComputedStyle(canvas).getPropertyValue(`--${name}`);
}
