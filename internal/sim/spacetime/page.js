"use strict";
const id = (name) => document.getElementById(name), all = (query, root = document) => [...root.querySelectorAll(query)];
const svg = id("diagram"), end = +svg.dataset.end, width = +svg.dataset.width, gutter = +svg.dataset.gutter;
const texts = JSON.parse(id("texts").textContent), tip = id("tip"), time = id("time");
const placed = all("#labels text").map((e) => ({ e, at: +e.dataset.x, w: +e.dataset.w, need: e.textContent.length * 5.2 + 4 }));
const marks = all("#marks > g").map((e) => ({ e, at: +e.dataset.x, y: +(e.dataset.y || 0) }));
let from = 0, shown = end, drawn = 0;

// Messages and handlers are read from the paths that draw them: times in ms, heights in units.
const parse = (path, list, kind) => [...path.getAttribute("d").matchAll(/M([\d.]+) ([\d.]+)(?:L([\d.]+) ([\d.]+)|V([\d.]+)|v([\d.]+))/g)].map((m, i) => ({
  a: +m[1], y: +m[2], b: m[3] ? +m[3] : +m[1], z: m[4] ? +m[4] : m[5] ? +m[5] : +m[2] + +m[6], text: list[i], kind, lost: !!m[5],
}));
const segments = texts.Arrived.flatMap((list, k) => {
  const [arrived, lost] = all("path", id("m" + k));
  return [...parse(arrived, list || [], "m" + k), ...parse(lost, texts.Lost[k] || [], "m" + k)];
}).sort((s, t) => s.a - t.a);
const handlers = parse(id("handlers"), texts.Handlers || [], "handler");

const scale = () => width / shown;
const x = (at) => (at - from) * scale();
const visible = (kind) => { const box = document.querySelector(`input[value=${kind}]`); return !box || box.checked; };
const seconds = (ms, digits) => (ms / 1000).toFixed(digits) + " s";

function draw() {
  drawn = 0;
  const k = scale();
  time.setAttribute("transform", `translate(${-from * k} 0) scale(${k} 1)`);
  for (const t of placed) {
    const left = Math.max(x(t.at), 0), room = Math.min(x(t.at + t.w), width) - left;
    t.e.setAttribute("visibility", room > t.need ? "visible" : "hidden");
    t.e.setAttribute("x", left + 3);
  }
  for (const m of marks) m.e.setAttribute("transform", `translate(${x(m.at)} ${m.y})`);
  drawAxis();
  drawHeads();
  id("shown").setAttribute("x", from / end * 1170);
  id("shown").setAttribute("width", Math.max(shown / end * 1170, 3));
  id("range").textContent = `${seconds(from, 3)} to ${seconds(from + shown, 3)} of ${seconds(end, 2)}`;
  for (const b of all("#events button")) b.classList.toggle("at", shown < end / 3 && +b.dataset.at >= from && +b.dataset.at <= from + shown);
}

function drawAxis() {
  const power = 10 ** Math.floor(Math.log10(shown / 5)), step = [1, 2, 5, 10].map((n) => n * power).find((s) => shown / s <= 9), digits = Math.max(0, 3 - Math.floor(Math.log10(step)));
  let out = "";
  for (let at = Math.ceil(from / step) * step; at <= from + shown; at += step) {
    const left = x(at), anchor = left > width - 30 ? "end" : left < 20 ? "start" : "middle";
    out += `<line x1="${left}" x2="${left}" y1="16" y2="4000"/><text x="${left}" y="11" text-anchor="${anchor}">${seconds(at, digits)}</text>`;
  }
  id("axis").innerHTML = out;
}

// Arrow heads and full colours are for windows with few messages.
function drawHeads() {
  const near = segments.filter((s) => s.b >= from && s.a <= from + shown && visible(s.kind)), few = near.length < 160;
  svg.classList.toggle("near", few);
  id("heads").setAttribute("d", !few ? "" : near.filter((s) => !s.lost).map((s) => {
    const dx = x(s.b) - x(s.a), dy = s.z - s.y, n = Math.hypot(dx, dy) || 1, u = dx / n, v = dy / n, tipX = x(s.b), tipY = s.z;
    return `M${tipX} ${tipY}L${tipX - 7 * u - 2.6 * v} ${tipY - 7 * v + 2.6 * u}L${tipX - 7 * u + 2.6 * v} ${tipY - 7 * v - 2.6 * u}Z`;
  }).join(""));
}

function show(newFrom, newShown) {
  shown = Math.min(end, Math.max(newShown, 0.2));
  from = Math.min(end - shown, Math.max(0, newFrom));
  drawn = drawn || requestAnimationFrame(draw);
}
const zoom = (factor, at = from + shown / 2) => show(at - (at - from) * factor, shown * factor);
const jump = (at, span) => show(at - span / 2, span);

// Places of the pointer, in units of the diagram.
function place(e) {
  const box = svg.getBoundingClientRect(), unit = (width + gutter) / box.width;
  return { left: (e.clientX - box.left) * unit - gutter, y: (e.clientY - box.top) * unit, unit };
}

function nearest(p) {
  let best = null, least = 6;
  const test = (s) => {
    const ax = x(s.a), dx = x(s.b) - ax, dy = s.z - s.y;
    const f = Math.min(1, Math.max(0, ((p.left - ax) * dx + (p.y - s.y) * dy) / (dx * dx + dy * dy || 1)));
    const far = Math.hypot(p.left - ax - f * dx, p.y - s.y - f * dy);
    if (far < least) [best, least] = [s, far];
  };
  for (const s of segments) if (s.b >= from - shown / 50 && s.a <= from + shown * 1.02 && visible(s.kind)) test(s);
  return best;
}

function tell(e, text) {
  tip.textContent = text;
  tip.hidden = !text;
  if (!text) return;
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(e.clientX + 14, innerWidth - w - 8)) + "px";
  tip.style.top = (e.clientY + 18 + h > innerHeight ? e.clientY - h - 10 : e.clientY + 18) + "px";
}

const picked = document.createElementNS(svg.namespaceURI, "path");
picked.id = "picked";
id("heads").before(picked);
let held = null;
svg.addEventListener("pointerdown", (e) => { if (!e.button) { held = { left: e.clientX, from, moved: false }; svg.setPointerCapture(e.pointerId); } });
svg.addEventListener("pointerup", (e) => { if (held && !held.moved) follow(e); held = null; svg.classList.remove("drag"); });
svg.addEventListener("pointercancel", () => { held = null; });
svg.addEventListener("pointermove", (e) => {
  const p = place(e);
  if (held && Math.abs(e.clientX - held.left) > 3) {
    held.moved = true;
    svg.classList.add("drag");
    tell(e, "");
    return show(held.from - (e.clientX - held.left) * p.unit / scale(), shown);
  }
  const under = document.elementFromPoint(e.clientX, e.clientY), mark = under && under.closest("#marks [data-t]"), bar = under && under.closest("[data-t]");
  const handler = bar && bar.closest(".shard") && handlers.filter((h) => Math.abs(x(h.a) - p.left) < 3 && p.y >= h.y - 1 && p.y <= h.z + 1)[0];
  const message = !mark && nearest(p);
  picked.setAttribute("d", message ? `M${x(message.a)} ${message.y}L${x(message.b)} ${message.z}` : "");
  if (mark) return tell(e, mark.dataset.t);
  if (message) return tell(e, `${message.text}\nsent at ${seconds(message.a, 4)}, ${message.lost ? "never handled" : "handled " + (message.b - message.a).toFixed(3) + " ms later"}`);
  if (handler) return tell(e, `${handler.text}\n${seconds(handler.a, 4)}`);
  tell(e, bar ? bar.dataset.t : "");
});
svg.addEventListener("pointerleave", (e) => { tell(e, ""); picked.setAttribute("d", ""); });
svg.addEventListener("wheel", (e) => {
  e.preventDefault();
  if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) return show(from + (e.deltaX || e.deltaY) * shown / 900, shown);
  zoom(Math.exp(e.deltaY / 500), from + place(e).left / scale());
}, { passive: false });
svg.addEventListener("dblclick", () => show(0, end));

// A click on a shard or a view shows where else it is.
function follow(e) {
  const bar = document.elementFromPoint(e.clientX, e.clientY), group = bar && bar.dataset && bar.dataset.g, on = group && !bar.classList.contains("on");
  svg.classList.toggle("follow", !!on);
  for (const r of all("rect[data-g]")) r.classList.toggle("on", !!on && r.dataset.g === group);
}

id("in").onclick = () => zoom(0.5);
id("out").onclick = () => zoom(2);
id("all").onclick = () => show(0, end);
if (id("failed")) id("failed").onclick = () => show(end - 300, 300);
id("overview").onpointerdown = (e) => { const box = id("overview").getBoundingClientRect(); jump((e.clientX - box.left) / box.width * end, Math.min(shown, end / 8)); };
for (const b of all("#events button")) b.onclick = () => jump(+b.dataset.at, Math.min(shown, 400));
addEventListener("keydown", (e) => {
  const act = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, end), ArrowLeft: () => show(from - shown / 5, shown), ArrowRight: () => show(from + shown / 5, shown) }[e.key];
  if (act && !e.ctrlKey && !e.metaKey && e.target.tagName !== "INPUT") act();
});
for (const box of all("input[type=checkbox]")) {
  box.onchange = () => {
    const paths = id(box.value);
    if (paths) paths.style.display = box.checked ? "" : "none";
    else svg.classList.toggle("no-" + box.value, !box.checked);
    draw();
  };
  box.onchange();
}
const part = location.hash.match(/^#([\d.]+)-([\d.]+)$/); // a part of the run, in ms: #1200-1350
if (part) [from, shown] = [+part[1], Math.max(0.2, part[2] - part[1])];
id("ticks").innerHTML = all("#marks .fault, #marks .failure").map((e) => `<path class="${e.classList[0]}" d="M${e.dataset.x / end * 1170} 0V14"/>`).join("");
draw();
