// The error browser. The page's catalogue lists the decodings; their utterances come in chunks, each a script that calls
// takeUtterances, since a page on a disk may not fetch files. The first chunk holds the worst and is shown at once.
"use strict";

const PAGE = 50; // utterances shown at a time
const COLUMNS = 300; // of an alignment that are drawn before one asks for all

const catalogue = JSON.parse(document.getElementById("catalogue").textContent);
const FIELD = Object.fromEntries(catalogue.fields.map((name, index) => [name, index]));
const controls = ["set", "system", "sort", "kind", "speaker", "search"].map(element);
const [setSelect, systemSelect, sortSelect, kindSelect, speakerSelect, searchInput] = controls;

let decoding = null; // of the catalogue, shown now
let utterances = []; // its records that have been loaded
let shown = []; // those that the filters let through, sorted
let page = 0;

const errorsOf = (each) => each[FIELD.sub] + each[FIELD.del] + each[FIELD.ins];
const rateOf = (each) => errorsOf(each) / Math.max(1, each[FIELD.words]);

const ORDERS = {
  errors: (a, b) => errorsOf(b) - errorsOf(a) || a[FIELD.words] - b[FIELD.words],
  rate: (a, b) => rateOf(b) - rateOf(a) || errorsOf(b) - errorsOf(a),
  words: (a, b) => b[FIELD.words] - a[FIELD.words],
  id: () => 0,
};
const byId = (a, b) => (a[FIELD.id] < b[FIELD.id] ? -1 : a[FIELD.id] > b[FIELD.id] ? 1 : 0);

const KINDS = {
  "": () => true,
  any: (each) => errorsOf(each) > 0,
  sub: (each) => each[FIELD.sub] > 0,
  del: (each) => each[FIELD.del] > 0,
  ins: (each) => each[FIELD.ins] > 0,
  near: (each) => each[FIELD.near] > 0,
  audio: (each) => each[FIELD.audio] !== null,
};

// --- data

// Called by the chunks.
window.takeUtterances = (number, index, records) => {
  if (!decoding || number !== decoding.number) return; // the user has gone on to another
  utterances = utterances.concat(records);
  decoding.loaded = index + 1;
  if (index === 0) page = 0;
  refresh();
  // A pause, so that the page answers in between.
  if (decoding.loaded < decoding.chunks.length) setTimeout(() => load(decoding, decoding.loaded), 0);
  else fillSpeakers();
};

function load(which, index) {
  if (which !== decoding) return;
  const script = document.createElement("script");
  script.src = catalogue.data + which.chunks[index];
  script.onload = () => script.remove();
  script.onerror = () => {
    script.remove();
    if (which === decoding) element("status").textContent = `${which.chunks[index]} of this report is missing: write the report again`;
  };
  document.body.append(script);
}

function choose(number) {
  decoding = catalogue.decodings.find((each) => each.number === number) || catalogue.decodings[0];
  utterances = [];
  shown = [];
  page = 0;
  decoding.loaded = 0;
  const sets = [...new Set(catalogue.decodings.map((each) => each.set))];
  setSelect.replaceChildren(...sets.map((name) => option(name, name)));
  setSelect.value = decoding.set;
  const systems = catalogue.decodings.filter((each) => each.set === decoding.set);
  systemSelect.replaceChildren(...systems.map((each) => option(each.number, each.label)));
  systemSelect.value = decoding.number;
  speakerSelect.replaceChildren(option("", "all"));
  kindSelect.querySelector('[value="near"]').hidden = !decoding.mixed;
  if (!decoding.mixed && kindSelect.value === "near") kindSelect.value = "";
  document.querySelector(".legend .switches").hidden = !decoding.mixed;
  element("utterances").replaceChildren();
  element("status").textContent = "Loading";
  history.replaceState(null, "", `#${decoding.number}`);
  if (decoding.chunks.length) load(decoding, 0);
  else refresh();
}

function fillSpeakers() {
  const counts = new Map();
  for (const each of utterances) counts.set(each[FIELD.speaker], (counts.get(each[FIELD.speaker]) || 0) + errorsOf(each));
  counts.delete("");
  const chosen = speakerSelect.value;
  const names = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  speakerSelect.replaceChildren(option("", "all"), ...names.map((name) => option(name, `${name} (${count(counts.get(name))} errors)`)));
  speakerSelect.value = chosen;
  speakerSelect.disabled = !names.length;
}

// The whole text of an utterance, for the search; kept with the record.
function haystack(each) {
  each.text ??= [each[FIELD.id], each[FIELD.speaker], each[FIELD.reference], each[FIELD.hypothesis]].join(" ").toLowerCase();
  return each.text;
}

function refresh() {
  const kind = KINDS[kindSelect.value];
  const speaker = speakerSelect.value;
  const wanted = searchInput.value.trim().toLowerCase();
  shown = utterances.filter(
    (each) => kind(each) && (!speaker || each[FIELD.speaker] === speaker) && (!wanted || haystack(each).includes(wanted)),
  );
  const order = ORDERS[sortSelect.value];
  shown.sort((a, b) => order(a, b) || byId(a, b));
  page = Math.min(page, Math.max(0, Math.ceil(shown.length / PAGE) - 1));
  draw();
}

// --- what one sees

function draw(focus) {
  const first = page * PAGE;
  const visible = shown.slice(first, first + PAGE);
  const list = element("utterances");
  // A clip keeps playing if its utterance stays on the page.
  const key = visible.map((each) => each[FIELD.id] + "/" + each[FIELD.speaker]).join("\n") + decoding.number;
  if (list.dataset.key !== key) {
    list.start = first + 1;
    list.replaceChildren(...visible.map(drawUtterance));
    list.dataset.key = key;
  }
  const range = visible.length
    ? `${count(first + 1)} to ${count(first + visible.length)} of ${count(shown.length)} utterances`
    : "No utterance fits";
  const loading = decoding.loaded < decoding.chunks.length ? ", loading" : "";
  const left = decoding.total > decoding.kept ? ` (the worst of ${count(decoding.total)})` : "";
  element("status").textContent = `${range}${left}${loading}. ${decoding.summary}`;
  for (const id of ["previous", "previous2"]) element(id).disabled = page === 0;
  for (const id of ["next", "next2"]) element(id).disabled = first + PAGE >= shown.length;
  if (focus !== undefined && list.children.length) {
    const item = list.children[focus === "last" ? list.children.length - 1 : 0];
    item.querySelector("article").focus();
    item.scrollIntoView({ block: "nearest" });
  }
}

function drawUtterance(each) {
  const item = make("li");
  const article = make("article");
  article.tabIndex = 0;
  const errors = errorsOf(each);
  article.setAttribute("aria-label", `${each[FIELD.id]}, ${errors} errors`);
  const head = make("div", "head");
  head.append(make("strong", "", each[FIELD.id]));
  if (each[FIELD.speaker] && each[FIELD.speaker] !== each[FIELD.id]) head.append(make("span", "", `speaker ${each[FIELD.speaker]}`));
  const rate = each[FIELD.words] ? ` (${(100 * rateOf(each)).toFixed(0)} %)` : "";
  const parts = [["S", FIELD.sub], ["D", FIELD.del], ["I", FIELD.ins]].filter(([, field]) => each[field]);
  head.append(make("span", "", `${errors} ${errors === 1 ? "error" : "errors"} in ${count(each[FIELD.words])}${rate}`));
  if (parts.length) head.append(make("span", "quiet", parts.map(([mark, field]) => `${each[field]} ${mark}`).join(", ")));
  article.append(head);
  if (each[FIELD.audio] !== null) {
    const audio = make("audio");
    audio.controls = true;
    audio.preload = "none";
    audio.src = `${catalogue.audio}${each[FIELD.audio]}${catalogue.suffix}`;
    audio.setAttribute("aria-label", `Audio of ${each[FIELD.id]}`);
    article.append(audio);
  }
  article.append(drawAlignment(each));
  item.append(article);
  return item;
}

function drawAlignment(each) {
  const marks = each[FIELD.marks];
  if (!marks) return make("p", "quiet", "Too long to align, or nothing was said and nothing recognised.");
  const box = make("div", "alignment");
  const label = make("span", "c label");
  label.append(make("span", "", "ref"), make("span", "", "hyp"));
  box.append(label);
  const reference = each[FIELD.reference].split(" ");
  const hypothesis = each[FIELD.hypothesis].split(" ");
  const switches = new Set(each[FIELD.switches]);
  let left = 0;
  let right = 0;
  const add = (from, to) => {
    const columns = [];
    for (let column = from; column < to; column++) {
      const mark = marks[column];
      const said = mark === "I" ? null : reference[left++];
      const heard = mark === "C" ? said : mark === "D" ? null : hypothesis[right++];
      columns.push(drawColumn(mark, said, heard, switches.has(column)));
    }
    box.append(...columns);
  };
  add(0, Math.min(marks.length, COLUMNS));
  if (marks.length > COLUMNS) {
    const more = make("button", "", `all ${count(marks.length)} columns`);
    more.type = "button";
    more.addEventListener("click", () => {
      more.remove();
      add(COLUMNS, marks.length);
    });
    box.append(more);
  }
  return box;
}

function drawColumn(mark, said, heard, isSwitch) {
  const column = make("span", `c ${CLASSES[mark]}${isSwitch ? " switch" : ""}`);
  if (isSwitch) column.title = "the language changes here";
  column.append(said === null ? make("span", "gap", "***") : make("span", "", said));
  column.append(heard === null ? make("span", "gap", "***") : make("span", "", heard));
  if (mark !== "C") {
    const letter = make("b", "", mark);
    letter.title = MEANINGS[mark];
    column.append(letter);
  }
  return column;
}

// --- what one does

function turn(pages, focus) {
  const last = Math.ceil(shown.length / PAGE) - 1;
  const wanted = Math.min(Math.max(0, page + pages), Math.max(0, last));
  if (wanted === page) return;
  page = wanted;
  draw(focus ?? "first");
  if (focus === undefined) element("status").scrollIntoView({ block: "nearest" });
}

function step(by) {
  const articles = [...document.querySelectorAll("#utterances article")];
  const place = articles.indexOf(document.activeElement.closest("article"));
  const next = place + by;
  if (next >= articles.length) turn(1, "first");
  else if (next < 0 && place >= 0) turn(-1, "last");
  else {
    const article = articles[Math.max(0, next)];
    article?.focus();
    article?.scrollIntoView({ block: "nearest" });
  }
}

function play() {
  const audio = document.activeElement.closest("article")?.querySelector("audio");
  if (!audio) return;
  if (audio.paused) audio.play();
  else audio.pause();
}

document.addEventListener("play", (event) => {
  for (const audio of document.querySelectorAll("audio")) if (audio !== event.target) audio.pause();
}, true);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA|AUDIO)$/.test(event.target.tagName)) return;
  const actions = { j: () => step(1), k: () => step(-1), p: play, "/": () => searchInput.focus() };
  if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
});

let waiting = 0;
searchInput.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { page = 0; refresh(); }, 120);
});
for (const select of [sortSelect, kindSelect, speakerSelect]) select.addEventListener("change", () => { page = 0; refresh(); });
systemSelect.addEventListener("change", () => choose(Number(systemSelect.value)));
setSelect.addEventListener("change", () => {
  // the same system on the other test set, where it has been decoded
  const sameSystem = catalogue.decodings.find((each) => each.set === setSelect.value && each.system === decoding.system);
  choose((sameSystem || catalogue.decodings.find((each) => each.set === setSelect.value)).number);
});
element("controls").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["previous", "previous2"]) element(id).addEventListener("click", () => turn(-1));
for (const id of ["next", "next2"]) element(id).addEventListener("click", () => turn(1));
window.addEventListener("hashchange", () => choose(Number(location.hash.slice(1))));
choose(Number(location.hash.slice(1) || catalogue.decodings[0].number));
