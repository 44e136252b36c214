// What is wrong with a page as it is shown now: boxes and words that are cut, words that a line breaks, and
// text whose contrast to what is behind it is below 4.5 (WCAG 2.2, 1.4.3; 3 where it is large).
(() => {
  const found = [], paper = matchMedia("print").matches;
  const rgba = (text) => { const c = (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number); return c.length < 4 ? [...c, 1] : c; };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    const bare = getComputedStyle(document.documentElement).colorScheme === "dark" ? [18, 18, 18, 1] : [255, 255, 255, 1];
    return layers.reverse().reduce((under, top) => over(top, under), bare);
  };
  const root = document.querySelector("article") || document.body;
  for (const e of root.querySelectorAll("*")) {
    const style = getComputedStyle(e);
    if (!e.checkVisibility({visibilityProperty: true, opacityProperty: true}) || style.position === "absolute") continue;
    if (style.overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1 && (paper || style.overflowX === "hidden"))
      found.push(["cut", e.className, e.textContent.slice(0, 60)]);
    const box = e.getBoundingClientRect();
    let scrolls = false;
    for (let at = e; at; at = at.parentElement) scrolls ||= ["auto", "scroll"].includes(getComputedStyle(at).overflowX);
    if (box.width && box.right > innerWidth + 1 && (paper || !scrolls)) found.push(["beyond", e.tagName, e.textContent.slice(0, 60)]);
    for (const node of e.childNodes) {
      if (node.nodeType !== 3 || !node.data.trim()) continue;
      const ink = rgba(e.namespaceURI.endsWith("svg") ? style.fill : style.color), paint = behind(e);
      const [a, b] = [light(over(ink, paint)), light(paint)].sort((x, y) => x - y);
      const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
      const ratio = (b + .05) / (a + .05);
      if (ratio < (large ? 3 : 4.5)) found.push(["pale", ratio.toFixed(1), node.data.trim().slice(0, 60)]);
      if (e.closest("code")) continue; // where names are long
      for (const word of node.data.matchAll(/(?<![\w.\/=-])(--[a-z][a-z-]*|[A-Za-z]{2,14})(?![\w.\/=-])/g)) {
        const range = document.createRange();
        range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) found.push(["broken", e.tagName, word[0]]);
      }
    }
  }
  return found;
})()
