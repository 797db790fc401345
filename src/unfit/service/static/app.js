// What pages need scripts for: draw charts, follow an erasure, report what went wrong.
"use strict";

const css = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const NAMES = ["accent", "second", "soft", "bad", "good"];

// Specs name colours as the stylesheet does, so that one spec serves light and dark.
function coloured(value) {
  if (Array.isArray(value)) return value.map(coloured);
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([k, v]) =>
      [k, ["color", "range"].includes(k) ? named(v) : coloured(v)]));
  return value;
}
const named = v => Array.isArray(v) ? v.map(named) : NAMES.includes(v) ? css(v) : coloured(v);

function look() {
  const font = getComputedStyle(document.body).fontFamily;
  const text = { labelColor: css("soft"), titleColor: css("soft"), labelFont: font, titleFont: font,
                 labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500 };
  return {
    background: null, font, view: { stroke: null }, padding: 2,
    axis: { ...text, gridColor: css("rule"), domain: false, tickColor: css("rule"), tickCount: 5 },
    axisX: { grid: false, domain: true, domainColor: css("strong-rule") },
    legend: { labelColor: css("soft"), labelFont: font, labelFontSize: 12, symbolSize: 70 },
    line: { color: css("accent") }, point: { color: css("accent") }, bar: { color: css("accent") },
    circle: { color: css("accent") }
  };
}

// Our own tooltip: text only, so that no value of a record is ever markup.
function tooltip(_, event, __, value) {
  let tip = document.querySelector(".tip");
  if (value == null || value === "") { if (tip) tip.remove(); return; }
  if (!tip) { tip = document.createElement("div"); tip.className = "tip"; document.body.append(tip); }
  tip.replaceChildren();
  for (const [name, text] of Object.entries(value)) {
    const line = document.createElement("div"), b = document.createElement("b");
    b.textContent = text;
    line.append(name + " ", b);
    tip.append(line);
  }
  const left = Math.min(event.pageX + 14, scrollX + innerWidth - tip.offsetWidth - 12);
  tip.style.left = left + "px";
  tip.style.top = event.pageY + 14 + "px";
}

const views = new Map();
function draw(root) {
  for (const [chart, view] of views)
    if (!chart.isConnected) { view.finalize(); views.delete(chart); }
  if (!window.vega || !window.vegaLite) return;
  for (const chart of root.querySelectorAll(".chart")) {
    const source = chart.parentElement.querySelector("script.spec");
    if (!source) continue;
    const spec = coloured(JSON.parse(source.textContent));
    const whole = { $schema: "https://vega.github.io/schema/vega-lite/v5.json", width: "container",
                    height: 210, autosize: { type: "fit", contains: "padding" },
                    config: look(), ...spec };
    const compiled = vegaLite.compile(whole).spec;
    const view = new vega.View(vega.parse(compiled, null, { ast: true }),
      { expr: vega.expressionInterpreter, renderer: "svg", hover: true });
    view.tooltip(tooltip).logLevel(vega.Error);
    const label = chart.dataset.label;
    chart.replaceChildren();
    view.initialize(chart).runAsync().then(() => {
      const svg = chart.querySelector("svg");
      if (svg) { svg.setAttribute("role", "img"); svg.setAttribute("aria-label", label); }
    });
    if (views.has(chart)) views.get(chart).finalize();
    views.set(chart, view);
  }
}

// A pending erasure is followed; once it is settled, its panel is loaded again.
function follow(root) {
  for (const part of root.querySelectorAll("[data-follow]")) {
    const source = new EventSource(part.dataset.follow);
    source.addEventListener("state", event => {
      if (JSON.parse(event.data).state === "pending") return;
      source.close();
      htmx.ajax("GET", part.dataset.panel, { target: "#panel", swap: "innerHTML" });
    });
    const again = () => htmx.ajax("GET", part.dataset.panel, { target: "#panel", swap: "innerHTML" });
    source.onerror = () => {  // the browser reopens a lost connection, but not a refused one
      if (source.readyState === EventSource.CLOSED) setTimeout(again, 4000);
    };
    addEventListener("pagehide", () => source.close());
  }
}

function say(text) {
  const said = document.getElementById("said");
  if (!said) return;
  said.textContent = text;
  setTimeout(() => { if (said.textContent === text) said.textContent = ""; }, 6000);
}

document.addEventListener("DOMContentLoaded", () => { draw(document); follow(document); });
document.addEventListener("htmx:afterSwap", event => { draw(event.target); follow(event.target); });
document.addEventListener("htmx:beforeRequest", () => document.body.classList.add("busy"));
document.addEventListener("htmx:afterRequest", () => document.body.classList.remove("busy"));
document.addEventListener("htmx:responseError", event =>
  say(event.detail.xhr.status === 401 ? "You are signed out." : "The request failed; try again."));
document.addEventListener("htmx:sendError", () => say("The service cannot be reached."));
document.addEventListener("submit", event => {
  const button = event.target.querySelector("button[type=submit], button:not([type])");
  const question = event.target.dataset.ask;
  if (question && !confirm(question)) { event.preventDefault(); return; }
  if (button) setTimeout(() => { button.setAttribute("aria-busy", "true"); button.disabled = true; });
});
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("[aria-busy]")) {
    button.removeAttribute("aria-busy");
    button.disabled = false;
  }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(document));
let sized;
addEventListener("resize", () => { clearTimeout(sized); sized = setTimeout(() => draw(document), 150); });
