// Colours: as the system has them, light or dark. Runs in the head, so that nothing flashes.
(() => {
  const choices = ["auto", "light", "dark"];
  const root = document.documentElement;
  let choice = "auto";
  try {
    choice = localStorage.getItem("theme") || "auto";
  } catch {
    // some browsers keep no storage for pages on a disk
  }
  const apply = () => {
    if (choice === "auto") delete root.dataset.theme;
    else root.dataset.theme = choice;
  };
  if (!choices.includes(choice)) choice = "auto";
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => {
      button.textContent = `Colours: ${choice}`;
      button.setAttribute("aria-label", `Colours: ${choice === "auto" ? "as the system has them" : choice}`);
    };
    label();
    button.addEventListener("click", () => {
      choice = choices[(choices.indexOf(choice) + 1) % choices.length];
      apply();
      label();
      try {
        localStorage.setItem("theme", choice);
      } catch {
        // then it holds for this page
      }
    });
  });
})();
