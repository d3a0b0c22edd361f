// every picture of a page opens at full size
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll(".md-content article img")) {
    if (image.closest("a")) continue;
    const link = document.createElement("a");
    link.href = image.src;
    link.title = "Open at full size";
    image.replaceWith(link);
    link.append(image);
  }
});

// frames in closed boxes are loaded when the box is opened: a page that is drawn while it is hidden measures no text
document.querySelectorAll("details:not([open])").forEach(box => {
  const frames = [...box.querySelectorAll("iframe[src]")];
  frames.forEach(frame => {
    frame.dataset.src = frame.getAttribute("src");
    frame.removeAttribute("src");
  });
  box.addEventListener("toggle", () => frames.forEach(frame => { frame.src = frame.dataset.src; }), { once: true });
});
