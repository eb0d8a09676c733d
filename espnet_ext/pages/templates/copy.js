// Buttons that copy a row or a table as LaTeX or Markdown. Pages on a disk may have no clipboard: then by a selection.
(() => {
  const bySelection = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("no clipboard");
  };
  document.documentElement.classList.add("js");
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const text = button.dataset.copy;
    let said = "copied";
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      try {
        bySelection(text);
      } catch {
        said = "not allowed";
      }
    }
    const label = button.dataset.label ?? button.textContent;
    button.dataset.label = label;
    button.textContent = said;
    button.focus();
    setTimeout(() => { button.textContent = label; }, 1500);
  });
})();
