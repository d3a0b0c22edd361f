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
