// What pages with aligned text share.
"use strict";

const element = (id) => document.getElementById(id);
const count = (number) => number.toLocaleString("en");

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

const CLASSES = { C: "", S: "sub", D: "del", I: "ins" };
const MEANINGS = { S: "substituted", D: "deleted", I: "inserted" };
