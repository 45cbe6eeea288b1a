// Draws a state (model.go, type shown) into the page. Texts enter as text nodes only.

export function el(tag, attrs, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== ""));
  return e;
}

export const $ = (id) => document.getElementById(id);
const put = (id, ...children) => $(id).replaceChildren(...children.flat().filter((c) => c));

const number = (n) => n.toLocaleString("en-US", { maximumFractionDigits: 0 });
export const count = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;
const rate = (r) => (r < 0 ? "–" : r > 0 && r < 10 ? r.toFixed(1) : number(r));
export const millis = (ms) => (ms < 0 ? "–" : ms > 0 && ms < 0.05 ? "< 0.1 ms" : ms < 9.95 ? `${ms.toFixed(1)} ms` : ms < 999.5 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
export const bytes = (b) => {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (b < 1024 || unit === "GiB") return `${b < 10 && unit !== "B" ? b.toFixed(1) : Math.round(b)} ${unit}`;
    b /= 1024;
  }
};
export const span = (s) => (s < 60 ? `${Math.round(s)} s` : s < 3600 ? `${Math.round(s / 60)} min` : s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`);
const ago = (at, now) => `${span(Math.max(0, (Date.parse(now) - Date.parse(at)) / 1000))} ago`;
const clock = (at) => new Date(at).toTimeString().slice(0, 8);
const paint = (color) => `c${color % 8} t${Math.floor(color / 8) % 4}`;

// changed reports whether a part differs from what was drawn last: parts that are equal stay,
// with their focus and hover texts.
const drawn = new Map();
function changed(part, ...values) {
  const now = JSON.stringify(values);
  if (drawn.get(part) === now) return false;
  drawn.set(part, now);
  return true;
}

const history = { ask: [], p99: [] };
let latest = 0;

export function draw(s, ui) {
  const at = Date.parse(s.at);
  if (at > latest) {
    latest = at;
    remember(history.ask, s.totals.ask_rate);
    remember(history.p99, s.totals.p99_ms);
  }
  document.title = `${s.health.level === "ok" ? "" : "! "}${s.cluster} · Peerage`;
  put("cluster", s.cluster);
  put("seen", `${s.view ? `view …${s.view.split(".").pop().slice(-4)} · ` : ""}seen from ${s.seen}`);
  $("seen").title = s.view ? `Equal on all nodes that hold the same view: ${s.view}` : "";
  drawHealth(s);
  drawTotals(s);
  if (changed("members", s.members)) drawMembers(s, ui);
  if (changed("map", s.map, s.types.map((t) => t.name), s.members.map((m) => [m.name, m.color, m.gone]))) drawMap(s, ui);
  drawFailover(s);
  if (changed("types", s.types, ui.sort, s.map && s.map.type)) drawTypes(s, ui);
  if (changed("events", s.events)) drawEvents(s);
  if (changed("data", s.data)) drawData(s, ui);
}

function remember(list, v) {
  list.push(Math.max(0, v));
  if (list.length > 120) list.shift();
}

function drawHealth(s) {
  if (!changed("health", s.health)) return;
  const mark = { ok: "✓", warn: "▲", bad: "✕", empty: "○" }[s.health.level];
  $("health").className = `health ${s.health.level}`;
  const list = s.health.details || [];
  put("health", el("h1", {}, `${mark} ${s.health.text}`), list.length ? el("ul", {}, list.map((d) => el("li", {}, d))) : null);
}

function sparkline(values, label) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 119 22");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  const top = Math.max(...values, 1e-9);
  const path = document.createElementNS(ns, "path");
  path.setAttribute("d", values.map((v, i) => `${i ? "L" : "M"}${119 - (values.length - 1 - i)} ${(20 - 18 * (v / top)).toFixed(1)}`).join(""));
  path.setAttribute("fill", "none");
  path.setAttribute("stroke", "var(--accent)");
  path.setAttribute("stroke-width", "1.5");
  path.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(path);
  return svg;
}

function kpi(title, value, below, help, level) {
  return el("div", { class: "kpi", title: help }, el("h3", {}, title), el("div", { class: `v ${level || ""}` }, value), typeof below === "string" ? el("div", { class: "soft" }, below) : below);
}

function drawTotals(s) {
  const t = s.totals;
  const f = s.failover;
  put(
    "kpis",
    kpi("lived twice", number(t.doubles), "shards, since the start", "Shards that were found to run on two nodes. It stays 0 as long as the guarantee of a single instance holds.", t.doubles ? "bad" : "ok"),
    kpi("last failover", f ? (f.undetected ? "> " : "") + millis(f.total_ms) : "none", f ? `${f.name}, ${ago(f.at, s.at)}` : "since this page's node began to look", "From the loss of the connection until the last shard of the lost node ran elsewhere."),
    kpi("handled /s", rate(t.ask_rate), sparkline(history.ask, "messages per second"), "Messages that entities of all nodes handled, per second."),
    kpi("ask, p99", t.measured ? millis(t.p99_ms) : "–", t.measured ? sparkline(history.p99, "99th percentile") : "needs a Registerer", t.measured ? `Median ${millis(t.p50_ms)}. Asks of all nodes since the last refresh; each node needs Config.Registerer.` : "Set peerage.Config.Registerer on the nodes to measure latencies."),
    kpi("entities", number(t.entities), `${count(t.shards, "shard")}, ${count(s.types.length, "type")}`, "Live instances on all nodes that answered."),
    kpi("moving", number(t.moving), `${rate(t.handoff_rate)} handoffs /s${t.buffered ? `, ${count(t.buffered, "message")} wait` : ""}`, "Shards on their way to another home, shards that began at a new home per second, and messages that wait for a home or for room in a mailbox.", t.moving || t.buffered ? "warn" : ""),
  );
}

function drawMembers(s, ui) {
  const present = s.members.filter((m) => !m.gone);
  put("membercount", `${present.filter((m) => m.answers).length} of ${present.length}`);
  $("members").className = `scroll ${s.members.length > 14 ? "dense" : ""}`;
  put("members", s.members.length ? s.members.map((m) => memberRow(m, s)) : el("div", { class: "empty" }, "No member yet."));
}

function memberRow(m, s) {
  if (m.gone) {
    return el("div", { class: "m gone" }, el("div", { class: "row" }, el("span", { class: "dot" }), el("span", { class: "nm" }, m.name), el("span", { class: "end bad" }, m.gone === "left" ? "left" : "✕ gone")), el("div", { class: "small" }, `${m.gone}, ${clock(m.gone_at)}`));
  }
  const tags = [];
  if (m.leader) tags.push(el("span", { class: "tag ok", title: "It grants the leases." }, "leader"));
  if (m.status !== "up") tags.push(el("span", { class: "tag warn" }, m.status));
  if (!m.answers) tags.push(el("span", { class: "tag warn", title: "Its figures did not come in time." }, "no answer"));
  else if (!m.ready) tags.push(el("span", { class: "tag warn", title: m.not_ready }, "not ready"));
  const lease = el("i");
  lease.style.width = `${Math.max(0, m.lease) * 100}%`;
  const present = s.members.filter((o) => !o.gone).length;
  const coordinates = m.coordinates || [];
  const notes = [
    m.addr, m.zone && `zone ${m.zone}`, m.version && `version ${m.version}`, m.roles && m.roles.join(", "), m.up > 0 && `up ${span(m.up)}`, m.memory > 0 && bytes(m.memory), m.rate >= 0 && `${rate(m.rate)} handled /s`,
    m.answers && m.links > 0 && `${m.links} of ${count(present - 1, "link")}`,
    coordinates.length > 0 && (coordinates.length > 3 ? `coordinates ${coordinates.length} types` : `coordinates ${coordinates.join(", ")}`),
  ].filter(Boolean).join(" · ");
  return el("div", { class: `m ${m.answers ? "" : "silent"} ${m.down || !m.ready ? "problem" : ""}`, title: notes },
    el("div", { class: "row" }, el("span", { class: `dot ${paint(m.color)}` }), el("span", { class: "nm" }, m.name), tags, el("span", { class: "end" }, m.answers ? `${number(m.shards)} shards` : "")),
    m.answers ? el("div", { class: `lease ${m.lease < 0 ? "none" : ""}`, title: m.lease < 0 ? "No lease: its entities pause." : `Lease valid for ${millis(m.lease_ms)}.` }, lease) : null,
    el("div", { class: "small" }, notes),
    m.down ? el("div", { class: "small warn" }, `no connection with ${m.down.slice(0, 5).join(", ")}${m.down.length > 5 ? ` and ${m.down.length - 5} more` : ""}`) : null,
    m.not_ready ? el("div", { class: "small warn" }, m.not_ready) : null);
}

function drawMap(s, ui) {
  const map = s.map;
  const select = $("type");
  if (changed("typelist", s.types.map((t) => t.name))) select.replaceChildren(...s.types.map((t) => el("option", { value: t.name }, t.name)));
  if (!map) {
    put("maphint", "");
    put("map", el("div", { class: "empty" }, s.types.length ? "This node runs none of the types." : "No entity type is registered on this node."));
    return;
  }
  select.value = map.type;
  const moving = new Set(map.moving || []);
  const recent = new Set(map.recent || []);
  const rows = s.members.map(() => []);
  const other = { none: [], lost: [] };
  map.homes.forEach((home, shard) => {
    const mark = moving.has(shard) ? "moving" : recent.has(shard) ? "recent" : "";
    const where = home >= 0 ? s.members[home].name : home === -2 ? "its home does not answer" : moving.has(shard) ? "on its way" : "no home yet";
    const cell = el("button", { class: `cell ${home >= 0 ? paint(s.members[home].color) : home === -2 ? "lost" : "none"} ${mark}`, type: "button", tabindex: "-1", "data-shard": shard, title: `shard ${shard}: ${where}${map.entities[shard] ? `, ${count(map.entities[shard], "entity").replace("entitys", "entities")}` : ""}${mark === "recent" ? ", moved a moment ago" : ""}. Click: why?`, onclick: () => ui.explain(map.type, shard) });
    (home >= 0 ? rows[home] : home === -2 ? other.lost : other.none).push(cell);
  });
  const focused = document.activeElement.dataset?.shard;
  const shownRows = s.members.map((m, i) => [m, rows[i]]).filter(([m, r]) => !m.gone && (r.length || m.answers));
  const placed = map.homes.filter((h) => h >= 0).length;
  put("maphint", map.error ? map.error : `${number(placed)} of ${number(map.total)} run · a square is a shard, its colour the node`);
  $("map").className = `scroll ${map.total > 400 ? "tiny" : ""} ${shownRows.length > 20 ? "many" : ""}`;
  put("map",
    shownRows.map(([m, cells]) => mapRow(m.name, cells)),
    other.lost.length ? mapRow("no answer", other.lost) : null,
    other.none.length ? mapRow("no home", other.none) : null,
    map.total && !placed ? el("div", { class: "empty" }, "No shard has a home yet: the first message to an entity gives its shard one.") : null);
  const cells = $("map").querySelectorAll(".cell");
  const again = focused && [...cells].find((c) => c.dataset.shard === focused);
  if (again || cells[0]) (again || cells[0]).tabIndex = 0; // one stop of the Tab key; the arrows move on
  if (again) again.focus();
}

const mapRow = (name, cells) => el("div", { class: "maprow" }, el("b", { title: name }, name), el("div", { class: "cells" }, cells), el("span", { class: "soft n" }, number(cells.length)));

function drawFailover(s) {
  const f = s.failover;
  $("failpanel").hidden = !f;
  if (!f) return;
  put("failhead", `${f.name}, ${ago(f.at, s.at)} · ${f.why}`);
  if (!changed("fail", f)) return;
  const bar = el("div", { class: "phases", role: "img", "aria-label": f.phases ? f.phases.map((p) => `${p.name} ${millis(p.ms)}`).join(", ") : "" });
  (f.phases || []).forEach((p, i) => {
    const part = el("i", { class: paint([0, 2, 4, 1][i % 4]), title: `${p.name}: ${millis(p.ms)}` });
    part.style.flexGrow = p.ms;
    bar.append(part);
  });
  put("fail", bar,
    el("div", { class: "legend" }, (f.phases || []).map((p, i) => el("span", {}, el("i", { class: `dot ${paint([0, 2, 4, 1][i % 4])}` }), `${p.name} ${millis(p.ms)}`))),
    f.undetected ? el("p", { class: "soft" }, "How long the detection took is not known: no page was open then.") : "",
    el("p", { class: "soft" }, f.shards ? `${number(f.hosted)} of ${count(f.shards, "shard")} of ${count(f.types, "type")} have new homes.` : "No shard has moved because of it."));
}

const columns = [
  ["name", "type", "", (t) => t.name],
  ["role", "role", "", (t) => t.role || "all"],
  ["shards", "shards", "n", (t) => `${number(t.shards)} / ${number(t.total)}`],
  ["entities", "entities", "n", (t) => number(t.entities)],
  ["rate", "handled /s", "n", (t) => rate(t.rate)],
  ["p99_ms", "p50 / p99", "n", (t) => (t.p99_ms < 0 ? "–" : `${millis(t.p50_ms)} / ${millis(t.p99_ms)}`)],
  ["waiting", "waiting", "n", (t) => number(t.waiting)],
  ["oldest_s", "oldest call", "n", (t) => (t.oldest_s >= 0.05 ? `${t.oldest_s.toFixed(1)} s` : "–")],
  ["drop_rate", "dropped /s", "n", (t) => rate(t.drop_rate)],
  ["state_bytes", "state", "n", (t) => (t.state_bytes ? bytes(t.state_bytes) : "–")],
  ["unconfirmed", "reliable", "n", (t) => number(t.unconfirmed)],
  ["remembered_waiting", "unsaved", "n", (t) => number(t.remembered_waiting)],
  ["coordinator", "coordinator", "", (t) => t.coordinator || "–"],
];

const helps = {
  shards: "Shards that run, of all.", rate: "Messages that handlers ended with, per second.", waiting: "Messages that wait for a home, and callers that wait for room in a mailbox.",
  oldest_s: "Age of the longest running call of an entity's code.", state_bytes: "Replicated states on all nodes.", unconfirmed: "Messages of reliable producers in flight.", remembered_waiting: "Updates of remembered entities that are not stored yet.",
};

function drawTypes(s, ui) {
  put("typecount", number(s.types.length));
  if (!s.types.length) {
    put("types", el("tbody", {}, el("tr", {}, el("td", { class: "empty" }, "No entity type is registered."))));
    return;
  }
  const [key, down] = ui.sort;
  const rows = [...s.types].sort((a, b) => (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0) * (down ? -1 : 1));
  const head = columns.map(([k, title, cls]) => el("th", { class: cls, "aria-sort": k === key ? (down ? "descending" : "ascending") : undefined }, el("button", { type: "button", title: helps[k], onclick: () => ui.sortBy(k) }, title)));
  put("types", el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows.map((t) =>
    el("tr", { class: s.map && s.map.type === t.name ? "on" : "", title: (t.problems || []).join("; ") }, columns.map(([k, , cls, text]) =>
      el("td", { class: `${cls} ${(k === "oldest_s" && t.oldest_s > 5) || (k === "waiting" && t.waiting) ? "warn" : ""}` }, k === "name" ? el("button", { class: "link", type: "button", onclick: () => ui.choose(t.name) }, (t.problems ? "▲ " : "") + t.name) : text(t)))))));
}

function drawEvents(s) {
  const mark = { ok: "✓ ", bad: "✕ ", warn: "▲ ", info: "" };
  const list = [...(s.events || [])].reverse();
  put("events", list.length ? list.map((e) => el("li", {}, el("time", { datetime: e.at }, clock(e.at)), el("span", { class: e.level }, mark[e.level] + e.text), e.detail ? el("span", { class: "soft" }, ` · ${e.detail}`) : "")) : el("li", { class: "soft" }, "None yet."));
}

function drawData(s, ui) {
  const rows = (s.data || []).flatMap((d) => [
    el("tr", {}, el("th", { colspan: 2 }, el("button", { type: "button", title: "List the keys.", onclick: () => ui.keys(d.role) }, `role ${d.role || "all"} ›`))),
    row("keys", `${number(d.keys)} · ${bytes(d.bytes)}`),
    row("replicas", `${d.replicas}${d.unsettled ? `, ${d.unsettled} catching up` : ""}`, d.unsettled),
    row("slowest replica", d.lag ? `${count(d.lag, "change")} behind (${d.behind})` : "level", d.lag > 1000),
    row("majority writes, p50 / p99", d.write_p99_ms < 0 ? "–" : `${millis(d.write_p50_ms)} / ${millis(d.write_p99_ms)}`),
    row("majority reads, p50 / p99", d.read_p99_ms < 0 ? "–" : `${millis(d.read_p50_ms)} / ${millis(d.read_p99_ms)}`),
    row("waiting requests", number(d.pending)),
    row("tombstones", number(d.tombstones)),
    d.failing ? row("disk fails on", count(d.failing, "node"), true) : null,
  ]);
  put("data", el("tbody", {}, rows.length ? rows.filter(Boolean) : el("tr", {}, el("td", { class: "soft" }, "No replica yet."))));
}

export const row = (name, value, warn) => el("tr", {}, el("td", {}, name), el("td", { class: `n wrap ${warn ? "warn" : ""}` }, value));
