// Aligned errors of several systems, side by side. Needs aligned.js; the data stand in the page.
"use strict";

const PAGE = 50; // rows shown at a time
const COLUMNS = 300; // of an alignment that are drawn before one asks for all

const data = JSON.parse(element("data").textContent);
const [KEY, SPEAKER, REFERENCE, NUMBER, HEARD] = [0, 1, 2, 3, 4]; // places in a row
const names = data.systems.map((system) => system.name);
const seedSelect = element("seed");
const kindSelect = element("kind");
const sortSelect = element("sort");
const searchInput = element("search");
const rightSelects = [...document.querySelectorAll("#controls [data-system]")];

let shown = [];
let page = 0;

// Marks and words of a row for one system, in the seed that is chosen; a system with one file has it for all seeds.
function heardOf(row, system) {
  const files = row[HEARD][system];
  return files[Math.min(Number(seedSelect.value), files.length - 1)];
}

const errorsOf = (row, system) => [...heardOf(row, system)[0]].filter((mark) => mark !== "C").length;
const allErrors = (row) => names.reduce((sum, _, system) => sum + errorsOf(row, system), 0);
const spread = (row) => {
  const errors = names.map((_, system) => errorsOf(row, system));
  return Math.max(...errors) - Math.min(...errors);
};
const differ = (row) => new Set(names.map((_, system) => heardOf(row, system).join("\n"))).size > 1;

const KINDS = { all: () => true, wrong: (row) => allErrors(row) > 0, differ };
const RIGHT = { any: () => true, right: (errors) => errors === 0, wrong: (errors) => errors > 0 };
const ORDERS = {
  errors: (a, b) => allErrors(b) - allErrors(a),
  spread: (a, b) => spread(b) - spread(a),
  id: () => 0,
};

function haystack(row) {
  return [row[KEY], row[SPEAKER], row[REFERENCE], ...names.map((_, system) => heardOf(row, system)[1])].join(" ").toLowerCase();
}

function refresh() {
  const wanted = searchInput.value.trim().toLowerCase();
  shown = data.rows.filter(
    (row) =>
      KINDS[kindSelect.value](row) &&
      rightSelects.every((select) => RIGHT[select.value](errorsOf(row, Number(select.dataset.system)))) &&
      (!wanted || haystack(row).includes(wanted)),
  );
  const order = ORDERS[sortSelect.value];
  shown.sort((a, b) => order(a, b) || a[NUMBER] - b[NUMBER]);
  page = 0;
  draw();
}

function draw() {
  const first = page * PAGE;
  const visible = shown.slice(first, first + PAGE);
  const list = element("utterances");
  list.start = first + 1;
  list.replaceChildren(...visible.map(drawRow));
  const left = data.total > data.rows.length ? ` (the worst of ${count(data.total)})` : "";
  element("status").textContent = visible.length
    ? `${count(first + 1)} to ${count(first + visible.length)} of ${count(shown.length)}${left}`
    : "Nothing fits";
  for (const id of ["previous", "previous2"]) element(id).disabled = page === 0;
  for (const id of ["next", "next2"]) element(id).disabled = first + PAGE >= shown.length;
}

function drawRow(row) {
  const item = make("li");
  const article = make("article");
  article.tabIndex = 0;
  const head = make("div", "head");
  head.append(make("strong", "", row[KEY]));
  if (row[SPEAKER] && !row[KEY].endsWith(row[SPEAKER])) head.append(make("span", "", `speaker ${row[SPEAKER]}`));
  head.append(make("span", "quiet", names.map((name, system) => `${name} ${errorsOf(row, system)}`).join(", ") + " errors"));
  article.append(head, drawAlignment(row));
  item.append(article);
  return item;
}

// What a system heard of each token of the reference, and what it inserted before each of them and at the end.
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
  const systems = names.map((_, system) => unfold(row, system, tokens));
  const columns = [];
  for (let place = 0; place <= tokens.length; place++) {
    const most = Math.max(...systems.map((each) => each.inserted[place].length));
    for (let number = 0; number < most; number++)
      columns.push([null, systems.map((each) => (number < each.inserted[place].length ? ["I", each.inserted[place][number]] : ["", null]))]);
    if (place < tokens.length) columns.push([tokens[place], systems.map((each) => each.heard[place])]);
  }
  return columns;
}

function drawAlignment(row) {
  const columns = columnsOf(row);
  const box = make("div", "alignment systems");
  const label = make("span", "c label");
  label.append(...["reference", ...names].map((name) => make("span", "", name)));
  box.append(label, ...columns.slice(0, COLUMNS).map(drawColumn));
  if (columns.length > COLUMNS) {
    const more = make("button", "", `all ${count(columns.length)} columns`);
    more.type = "button";
    more.addEventListener("click", () => {
      more.remove();
      box.append(...columns.slice(COLUMNS).map(drawColumn));
    });
    box.append(more);
  }
  return box;
}

function drawColumn([said, cells]) {
  const column = make("span", "c");
  column.append(make("span", said === null ? "gap" : "", said ?? "***"));
  for (const [mark, heard] of cells) {
    const cell = make("span", CLASSES[mark] || "quiet", heard ?? (mark === "D" ? "***" : "\u00a0"));
    if (MEANINGS[mark]) cell.title = MEANINGS[mark];
    column.append(cell);
  }
  return column;
}

function turn(pages) {
  page += pages;
  draw();
  element("status").scrollIntoView({ block: "nearest" });
}

const seeds = Math.max(...data.systems.map((system) => system.files.length));
seedSelect.replaceChildren(...Array.from({ length: seeds }, (_, seed) => option(seed, String(seed + 1))));
let waiting = 0;
searchInput.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(refresh, 120);
});
for (const select of [seedSelect, kindSelect, sortSelect, ...rightSelects]) select.addEventListener("change", refresh);
for (const button of document.querySelectorAll("#confusions ~ .plots button"))
  button.addEventListener("click", () => {
    searchInput.value = button.textContent;
    refresh();
    element("controls").scrollIntoView();
  });
element("controls").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["previous", "previous2"]) element(id).addEventListener("click", () => turn(-1));
for (const id of ["next", "next2"]) element(id).addEventListener("click", () => turn(1));
refresh();
