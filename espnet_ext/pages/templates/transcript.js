// Marks the word that is heard, and plays from the word that is chosen.
"use strict";
(() => {
const player = document.querySelector("audio");
const words = [...document.querySelectorAll(".spoken")];
const starts = words.map((word) => Number(word.dataset.start));
const ends = words.map((word) => Number(word.dataset.end));
let now = -1;

// The last word that has begun; talkers may overlap, so starts need not be sorted.
function wordAt(seconds) {
  let found = -1;
  for (let i = 0; i < words.length; i++) {
    if (starts[i] <= seconds && seconds < ends[i] + 0.2 && (found < 0 || starts[i] >= starts[found])) found = i;
  }
  return found;
}

function mark() {
  const next = wordAt(player.currentTime);
  if (next !== now) {
    if (now >= 0) words[now].classList.remove("now");
    if (next >= 0) {
      words[next].classList.add("now");
      if (!player.paused) words[next].scrollIntoView({ block: "nearest" });
    }
    now = next;
  }
  if (!player.paused) requestAnimationFrame(mark);
}

function play(word) {
  player.currentTime = Number(word.dataset.start);
  player.play();
}

for (const event of ["play", "seeked", "timeupdate"]) player.addEventListener(event, mark);
for (const word of words) {
  word.addEventListener("click", () => play(word));
  word.addEventListener("keydown", (event) => { if (event.key === "Enter") play(word); });
}
})();
