// Aligned errors of several systems, side by side, with audio where there is some. The data stand in the page.
"use strict";
(() => {
const PAGE = 50; // rows shown at a time
const COLUMNS = 300; // of an alignment that are drawn before one asks for all
const [KEY, SPEAKER, REFERENCE, NUMBER, HEARD, AUDIO] = [0, 1, 2, 3, 4, 5]; // places in a row
const CLASSES = { C: "", S: "sub", D: "del", I: "ins" };
const MEANINGS = { S: "substituted", D: "deleted", I: "inserted" };
const HAN = /\p{Script=Han}/u;

const element = (id) => document.getElementById(id);
const count = (number) => number.toLocaleString("en");
const sets = JSON.parse(element("data").textContent);
const [setSelect, kindSelect, sortSelect, seedSelect, searchInput] = ["set", "kind", "sort", "seed", "search"].map(element);
let data = sets[0];
let shown = [];
let page = 0;

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function option(value, text) {
  const node = make("option", "", text);
  node.value = value;
  return node;
}

// Marks and words of a row for one system, in the training that is chosen; a system with one file has it for all.
function heardOf(row, system) {
  const files = row[HEARD][system];
  return files[Math.min(Number(seedSelect.value), files.length - 1)];
}

const systemsOf = (row) => row[HEARD].map((_, system) => system);
const errorsOf = (row, system) => [...heardOf(row, system)[0]].filter((mark) => mark !== "C").length;
const allErrors = (row) => systemsOf(row).reduce((sum, system) => sum + errorsOf(row, system), 0);
const spread = (row) => {
  const errors = systemsOf(row).map((system) => errorsOf(row, system));
  return Math.max(...errors) - Math.min(...errors);
};
const KINDS = {
  all: () => true,
  wrong: (row) => allErrors(row) > 0,
  differ: (row) => new Set(systemsOf(row).map((system) => heardOf(row, system).join("\n"))).size > 1,
  audio: (row) => row[AUDIO] !== null,
};
const RIGHT = { any: () => true, right: (errors) => errors === 0, wrong: (errors) => errors > 0 };
const ORDERS = {
  errors: (a, b) => allErrors(b) - allErrors(a),
  spread: (a, b) => spread(b) - spread(a),
  id: () => 0,
};

function choose(set) {
  data = set;
  const seeds = data.systems.reduce((longest, { files }) => (files.length > longest.length ? files : longest), []);
  seedSelect.replaceChildren(...seeds.map((name, seed) => option(seed, name)));
  element("rights").replaceChildren(...data.systems.map(({ name }, system) => {
    const select = make("select");
    select.dataset.system = system;
    select.append(...Object.keys(RIGHT).map((value) => option(value, value === "any" ? "right or wrong" : value)));
    const label = make("label", "", name);
    label.append(select);
    return label;
  }));
  refresh();
}

function haystack(row) {
  return [row[KEY], row[SPEAKER], row[REFERENCE], ...systemsOf(row).map((system) => heardOf(row, system)[1])].join(" ").toLowerCase();
}

function refresh() {
  const wanted = searchInput.value.trim().toLowerCase();
  const rights = [...element("rights").querySelectorAll("select")];
  shown = data.rows.filter(
    (row) =>
      KINDS[kindSelect.value](row) &&
      rights.every((select) => RIGHT[select.value](errorsOf(row, Number(select.dataset.system)))) &&
      (!wanted || haystack(row).includes(wanted)),
  );
  const order = ORDERS[sortSelect.value];
  shown.sort((a, b) => order(a, b) || a[NUMBER] - b[NUMBER]);
  turn(0);
}

function turn(to) {
  page = to;
  const first = page * PAGE;
  const visible = shown.slice(first, first + PAGE);
  element("utterances").start = first + 1;
  element("utterances").replaceChildren(...visible.map(drawRow));
  const left = data.total > data.rows.length ? ` (the worst of ${count(data.total)})` : "";
  element("status").textContent = visible.length
    ? `${count(first + 1)} to ${count(first + visible.length)} of ${count(shown.length)}${left}`
    : "Nothing fits";
  for (const button of document.querySelectorAll(".previous")) button.disabled = page === 0;
  for (const button of document.querySelectorAll(".next")) button.disabled = first + PAGE >= shown.length;
}

function drawRow(row) {
  const item = make("li");
  const article = make("article");
  article.tabIndex = 0;
  const head = make("div", "head");
  head.append(make("strong", "", row[KEY]));
  if (row[SPEAKER] && !row[KEY].endsWith(row[SPEAKER])) head.append(make("span", "", `speaker ${row[SPEAKER]}`));
  head.append(make("span", "quiet", `${data.systems.map(({ name }, system) => `${name} ${errorsOf(row, system)}`).join(", ")} errors`));
  article.append(head);
  if (row[AUDIO] !== null) {
    const audio = make("audio");
    audio.controls = true;
    audio.preload = "none";
    audio.src = row[AUDIO];
    audio.setAttribute("aria-label", `Audio of ${row[KEY]}`);
    article.append(audio);
  }
  article.append(drawAlignment(row));
  item.append(article);
  return item;
}

// What a system recognised for each token of the reference, and what it inserted before each of them and at the end.
function unfold(row, system, tokens) {
  const [marks, text] = heardOf(row, system);
  const words = text.split(" ");
  const heard = [];
  const inserted = [[]];
  let word = 0;
  for (const mark of marks) {
    if (mark === "I") inserted.at(-1).push(words[word++]);
    else {
      heard.push([mark, mark === "C" ? tokens[heard.length] : mark === "D" ? null : words[word++]]);
      inserted.push([]);
    }
  }
  return { heard, inserted };
}

function columnsOf(row) {
  const tokens = row[REFERENCE] ? row[REFERENCE].split(" ") : [];
  const systems = systemsOf(row).map((system) => unfold(row, system, tokens));
  const columns = [];
  for (let place = 0; place <= tokens.length; place++) {
    const inserted = systems.map((each) => each.inserted[place] ?? []);
    const most = Math.max(...inserted.map((words) => words.length));
    for (let number = 0; number < most; number++)
      columns.push([null, inserted.map((words) => (number < words.length ? ["I", words[number]] : ["", null])), false]);
    const isSwitch = place > 0 && place < tokens.length && HAN.test(tokens[place]) !== HAN.test(tokens[place - 1]);
    if (place < tokens.length) columns.push([tokens[place], systems.map((each) => each.heard[place] ?? ["", null]), isSwitch]);
  }
  return columns;
}

function drawAlignment(row) {
  const columns = columnsOf(row);
  const box = make("div", "alignment");
  const label = make("span", "c label");
  label.append(...["reference", ...data.systems.map(({ name }) => name)].map((name) => make("span", "", name)));
  box.append(label, ...columns.slice(0, COLUMNS).map(drawColumn));
  if (columns.length > COLUMNS) {
    const more = make("button", "", `all ${count(columns.length)} columns`);
    more.type = "button";
    more.addEventListener("click", () => more.replaceWith(...columns.slice(COLUMNS).map(drawColumn)));
    box.append(more);
  }
  return box;
}

function drawColumn([said, cells, isSwitch]) {
  const column = make("span", isSwitch ? "c switch" : "c");
  column.append(make("span", said === null ? "gap" : "", said ?? "***"));
  for (const [mark, heard] of cells) {
    const cell = make("span", CLASSES[mark], heard ?? (mark === "D" ? "***" : "\u00a0"));
    if (MEANINGS[mark]) cell.title = MEANINGS[mark];
    column.append(cell);
  }
  return column;
}

setSelect.replaceChildren(...sets.map(({ name }, number) => option(number, name)));
element("sets").hidden = sets.length < 2;
document.querySelector(".legend .switch").hidden = !sets.some((set) => set.rows.some((row) => HAN.test(row[REFERENCE])));
kindSelect.querySelector('[value="audio"]').hidden = !sets.some((set) => set.rows.some((row) => row[AUDIO] !== null));
setSelect.addEventListener("change", () => choose(sets[Number(setSelect.value)]));
for (const control of [kindSelect, sortSelect, seedSelect, element("rights")]) control.addEventListener("change", refresh);
let waiting = 0;
searchInput.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(refresh, 120);
});
element("controls").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("click", ({ target }) => {
  const by = target.matches(".next") ? 1 : target.matches(".previous") ? -1 : 0;
  if (by) {
    turn(page + by);
    element("status").scrollIntoView({ block: "nearest" });
  }
});
document.addEventListener("play", ({ target }) => {
  for (const audio of document.querySelectorAll("audio")) if (audio !== target) audio.pause();
}, true);
choose(data);
})();
