// What no text of a page may do: be printed over another, be cut without the full text in a title, or stand
// where only a scrolling part without a hint leads. Returns a sentence for each that does, below the one part that
// a selector names.
(selector) => {
  const NEARLY = 2;
  const faults = new Set();
  const styles = new Map();
  const styleOf = (part) => {
    if (!styles.has(part)) styles.set(part, getComputedStyle(part));
    return styles.get(part);
  };
  const plain = (text) => text.replace(/\s+/g, " ").trim();
  const brief = (text) => { const words = plain(text); return words.length > 60 ? `${words.slice(0, 57)}...` : words; };
  const page = document.scrollingElement;
  if (page.scrollWidth > innerWidth) faults.add(`the page is ${page.scrollWidth} wide in a window of ${innerWidth}`);

  function meet(box, other) {
    const left = Math.max(box.left, other.left);
    const right = Math.min(box.right, other.right);
    const top = Math.max(box.top, other.top);
    const bottom = Math.min(box.bottom, other.bottom);
    return right > left && bottom > top ? { left, right, top, bottom } : null;
  }
  const sticksOut = (box, frame) =>
    box.left < frame.left - NEARLY || box.right > frame.right + NEARLY ||
    box.top < frame.top - NEARLY || box.bottom > frame.bottom + NEARLY;

  // Each way of cutting has its excuse: a scrolling part its hint and its focus, an ellipsis its title.
  function shown(box, node) {
    let rest = box;
    for (let part = node.parentElement; part && part !== document.body; part = part.parentElement) {
      if (part.closest("svg") && part.tagName !== "svg") continue;
      const style = styleOf(part);
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      if (style.display === "inline") continue;
      const frame = part.getBoundingClientRect();
      if (sticksOut(rest, frame)) {
        const scrolls = [style.overflowX, style.overflowY].some((way) => way === "auto" || way === "scroll");
        if (scrolls) {
          if (part.tabIndex < 0 && !part.querySelector("a, button, input")) faults.add(`"${brief(node.data)}" is in a scrolling part without focus`);
          if (!style.backgroundAttachment.includes("local")) faults.add(`"${brief(node.data)}" is in a scrolling part without a hint`);
        } else if (!plain(part.closest("[title]")?.title ?? "").includes(plain(node.data))) {
          faults.add(`"${brief(node.data)}" is cut`);
        }
      }
      rest = meet(rest, frame);
      if (!rest) return null;
    }
    return rest;
  }

  function drawn(node) {
    const text = node.parentElement.closest("text");
    if (!text) return false;
    const box = text.getBoundingClientRect();
    const frame = text.parentElement.querySelector(":scope:not(.legend) > rect.frame, :scope > rect.paper, :scope > rect.box");
    if (sticksOut(box, text.ownerSVGElement.getBoundingClientRect())) faults.add(`"${brief(text.textContent)}" leaves its picture`);
    if (frame && sticksOut(box, frame.getBoundingClientRect())) faults.add(`"${brief(text.textContent)}" leaves its box`);
    return true;
  }

  // Words for screen readers alone have a box of a pixel, or are clipped to nothing, or stand beside the page.
  function isForTheEar(part) {
    for (let outer = part; outer && outer !== document.body; outer = outer.parentElement) {
      const box = outer.getBoundingClientRect();
      const { position, clipPath } = styleOf(outer);
      if (clipPath === "inset(50%)") return true;
      if (position === "absolute" && ((box.width <= 1 && box.height <= 1) || box.right < 0)) return true;
    }
    return false;
  }

  const boxes = [];
  const walker = document.createTreeWalker(document.querySelector(selector), NodeFilter.SHOW_TEXT);
  const texts = new Set();
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    if (!plain(node.data) || parent.closest("title, desc, style, script, noscript, option")) continue;
    if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || isForTheEar(parent)) continue;
    const text = parent.closest("text");
    if (text && texts.has(text)) continue;
    if (text) texts.add(text);
    drawn(node);
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const line of text ? [text.getBoundingClientRect()] : range.getClientRects()) {
      const { left, right, top, bottom } = line;
      const box = shown({ left, right, top, bottom }, node);
      if (box) boxes.push({ ...box, node, words: brief(text ? text.textContent : node.data) });
    }
  }

  boxes.sort((box, other) => box.top - other.top);
  boxes.forEach((box, at) => {
    for (let next = at + 1; next < boxes.length && boxes[next].top < box.bottom - NEARLY; next++) {
      const other = boxes[next];
      const both = other.node !== box.node && meet(box, other);
      if (both && both.right - both.left > NEARLY && both.bottom - both.top > NEARLY) {
        faults.add(`"${box.words}" and "${other.words}" overlap`);
      }
    }
  });
  return [...faults];
}
