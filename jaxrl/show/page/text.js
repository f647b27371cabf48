"use strict";

// Elements and text. Names from runs become text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fillNode(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const element = (tag, attributes = {}, ...children) =>
  fillNode(document.createElement(tag), attributes, children);

const shape = (tag, attributes = {}, ...children) =>
  fillNode(document.createElementNS(SVG, tag), attributes, children);

const byId = (id) => document.getElementById(id);

// With a unit, for axes: 250k, 1.5M.
function shortNumber(number) {
  const size = Math.abs(number);
  const unit = [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ].find(([least]) => size >= least);
  if (unit && size < 1e15) return digits(number / unit[0]) + unit[1];
  return digits(number);
}

function digits(number) {
  if (number !== 0 && (Math.abs(number) < 1e-3 || Math.abs(number) >= 1e6))
    return number
      .toExponential(3)
      .replace(/\.?0+e/, "e")
      .replace("e+", "e");
  return String(Number(number.toPrecision(4)));
}

const known = (value) => value !== undefined && value !== null && value !== "";

const asText = (value) =>
  !known(value) ? "" : typeof value === "number" ? digits(value) : String(value);

function clock(seconds) {
  if (!known(seconds)) return "";
  const units = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
  ];
  const [size, name] = units.find(([least]) => seconds >= least) || [1, "s"];
  const count = seconds / size;
  return `${count < 10 ? count.toFixed(1) : count.toFixed(0)} ${name}`;
}

const plural = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
