// Keeps the page current, and answers the keyboard, the search and the clicks.
import { $, bytes, count, draw, el, row, span } from "./draw.js";

let state = null;
let stream = null;
let typ = new URLSearchParams(location.search).get("type") || "";

const ui = {
  sort: ["name", false],
  sortBy(key) {
    ui.sort = [key, ui.sort[0] === key ? !ui.sort[1] : key !== "name"];
    if (state) draw(state, ui);
  },
  choose(name) {
    typ = name;
    connect();
  },
  explain,
  keys,
};

function connect() {
  if (stream) stream.close();
  stream = new EventSource(`stream?type=${encodeURIComponent(typ)}`);
  stream.onmessage = (m) => {
    state = JSON.parse(m.data);
    document.body.dataset.updates = Number(document.body.dataset.updates || 0) + 1;
    $("live").textContent = "● live";
    $("live").className = "ok";
    draw(state, ui);
    drawActions();
  };
  stream.onerror = () => {
    $("live").textContent = "○ no connection with the node; trying again";
    $("live").className = "bad";
  };
}

async function fetchJSON(path) {
  const r = await fetch(path);
  if (!r.ok) throw new Error((await r.text()).trim());
  return r.json();
}

const query = (o) => new URLSearchParams(o).toString();

function showDetail(title, ...body) {
  const close = el("button", { class: "link", type: "button", onclick: closeDetail }, "close (Esc)");
  $("detail").replaceChildren(el("h2", {}, title, close), ...body);
  $("detail").hidden = false;
  $("detail").scrollIntoView({ block: "nearest" });
}

function closeDetail() {
  $("detail").hidden = true;
}

// parseQuery splits "type / id": without a type, the chosen one counts.
function parseQuery(text) {
  const cut = text.indexOf("/");
  const head = cut < 0 ? "" : text.slice(0, cut).trim();
  if (state && head && state.types.some((t) => t.name === head)) return [head, text.slice(cut + 1).trim()];
  return [state && state.map ? state.map.type : typ, text.trim()];
}

async function find(text) {
  const [type, q] = parseQuery(text);
  if (!type) return;
  try {
    const f = await fetchJSON(`find?${query({ type, q })}`);
    if (f.exact && (f.exact.lives || f.found.length === 0)) showEntity(type, f.exact, f);
    else showFound(type, q, f);
  } catch (e) {
    showDetail(`${type} / ${q}`, el("p", { class: "bad" }, e.message));
  }
}

function instance(at) {
  if (!at.lives) return [row("instance", "none: the next message starts one")];
  return [row("age", span(at.age_ns / 1e9)), row("mailbox", count(at.waiting, "message") + " waiting"), row("now", at.running ? "handling a message" : "at rest"), row("state", at.state_bytes ? bytes(at.state_bytes) : "size not on record (not replicated)")];
}

async function showEntity(type, at, f) {
  const table = el("table", {}, el("tbody", {}, row("home", at.name), row("shard", `${at.shard} · token ${at.token}`), ...instance(at)));
  const why = el("div", {}, "…");
  const others = (f ? f.found : []).filter((o) => o.id !== at.id);
  showDetail(`${type} / ${at.id}`, el("div", { class: "two" }, el("div", {}, table, place(type, at.shard), passivate(type, at), others.length ? el("p", { class: "soft" }, "Also: ", others.slice(0, 12).flatMap((o) => [link(o.id, () => showEntity(type, o, f)), " "])) : ""), why));
  fillHistory(why, { type, id: at.id });
}

const link = (text, onclick) => el("button", { class: "link", type: "button", onclick }, text);

function showFound(type, q, f) {
  const rows = f.found.map((o) => el("tr", {}, el("td", { class: "wrap" }, link(o.id, () => showEntity(type, o, f))), el("td", {}, o.name), el("td", { class: "n" }, String(o.shard)), el("td", { class: "n" }, span(o.age_ns / 1e9)), el("td", { class: "n" }, String(o.waiting)), el("td", { class: "n" }, o.state_bytes ? bytes(o.state_bytes) : "–")));
  const head = el("tr", {}, ["id", "home"].map((h) => el("th", {}, h)), ["shard", "age", "waiting", "state"].map((h) => el("th", { class: "n" }, h)));
  showDetail(`${type}: ids with “${q}”`,
    rows.length ? el("div", { class: "scroll wide" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows))) : el("p", { class: "soft" }, `No live entity has “${q}” in its id. ${f.note || ""}`),
    f.more ? el("p", { class: "soft" }, "There are more.") : "", f.failed ? el("p", { class: "warn" }, `No answer from ${f.failed.join(", ")}.`) : "");
}

function explain(type, shard) {
  const why = el("div", {}, "…");
  const home = state && state.map && state.map.type === type && state.map.homes[shard] >= 0 ? state.members[state.map.homes[shard]].name : "none on record";
  showDetail(`shard ${shard} of ${type}`, el("div", { class: "two" }, el("div", {}, el("table", {}, el("tbody", {}, row("home", home), row("entities", String(state?.map?.entities[shard] ?? 0)))), place(type, shard)), why));
  fillHistory(why, { type, shard });
}

async function fillHistory(into, which) {
  try {
    const h = await fetchJSON(`explain?${query(which)}`);
    const name = (id) => state.members.find((m) => m.id === id)?.name || (id || "").slice(0, 6);
    const lines = (h.events || []).slice().reverse().map((e) => el("li", {}, el("time", {}, new Date(e.at).toTimeString().slice(0, 8)), `${name(e.on)}: ${e.kind}${e.node ? ` (${name(e.node)})` : ""}`, e.detail ? el("span", { class: "soft" }, ` · ${e.detail}`) : ""));
    const why = state.members.filter((m) => m.gone).reduce((text, m) => text.replaceAll(m.id, m.name), h.why || "");
    into.replaceChildren(el("p", {}, el("b", {}, "Why is it here? "), why), el("div", { class: "soft" }, "The last events first:"), el("ol", { class: "scroll" }, lines.length ? lines : el("li", { class: "soft" }, "Nothing on record.")));
  } catch (e) {
    into.replaceChildren(el("p", { class: "bad" }, e.message));
  }
}

async function keys(role) {
  try {
    const k = await fetchJSON(`keys?${query({ role, prefix: "" })}`);
    showDetail(`Keys of role ${role || "all"} on this node: ${k.of}`, el("div", { class: "scroll" }, (k.keys || []).map((x) => el("div", {}, el("code", {}, x)))));
  } catch (e) {
    showDetail("Keys", el("p", { class: "bad" }, e.message));
  }
}

async function act(path, body) {
  const r = await fetch(path, { method: "POST", headers: { "X-Peerage-Action": "1" }, body: body && JSON.stringify(body) });
  if (!r.ok) throw new Error((await r.text()).trim());
  return r;
}

const allowed = (what) => state && (state.allowed || []).includes(what);

// place returns a chooser of a shard's wanted node, if that is allowed.
function place(type, shard) {
  if (!allowed("place")) return "";
  const choice = el("select", { "aria-label": "wanted node" }, state.members.filter((m) => !m.gone).map((m) => el("option", { value: m.name }, m.name)));
  const said = el("span", { class: "soft" });
  const go = el("button", { type: "button", onclick: () => act("place", { type, shard, node: choice.value }).then(() => { said.textContent = " stored"; }, (e) => { said.textContent = ` ${e.message}`; }) }, "Place");
  return el("p", {}, "Wanted node: ", choice, " ", go, said);
}

// passivate returns a button that ends an instance, if that is allowed.
function passivate(type, at) {
  if (!allowed("passivate") || !at.lives) return "";
  const said = el("span", { class: "soft", role: "status" });
  const end = () => act("passivate", { type, id: at.id }).then((r) => r.json()).then((was) => { said.textContent = was.lives ? ` ends on ${was.name}` : " had ended before"; }, (e) => { said.textContent = ` ${e.message}`; });
  return el("p", {}, el("button", { type: "button", id: "passivate", onclick: end }, "Passivate"), said);
}

function drawActions() {
  if ($("actions").hidden === !allowed("drain")) return;
  $("actions").hidden = !allowed("drain");
  $("actionbox").replaceChildren(el("button", { type: "button", onclick: () => confirm(`Drain ${state.seen}? It leaves the cluster.`) && act("drain") }, `Drain ${state.seen}`));
}

$("search").addEventListener("submit", (e) => {
  e.preventDefault();
  if ($("query").value.trim()) find($("query").value);
});
$("type").addEventListener("change", (e) => ui.choose(e.target.value));

// The arrows move among the shards: left and right by one, up and down by a member.
$("map").addEventListener("keydown", (e) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
  const across = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!e.target.matches(".cell") || !(step || across)) return;
  e.preventDefault();
  const cells = [...$("map").querySelectorAll(".cell")];
  const rows = [...$("map").querySelectorAll(".maprow")].filter((r) => r.querySelector(".cell"));
  const to = step ? cells[cells.indexOf(e.target) + step] : rows[rows.indexOf(e.target.closest(".maprow")) + across]?.querySelector(".cell");
  if (!to) return;
  e.target.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
});

document.addEventListener("keydown", (e) => {
  if (e.key === "Escape") {
    closeDetail();
    $("query").blur();
    return;
  }
  if (e.target.matches("input, select, textarea") || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "/") {
    e.preventDefault();
    $("query").focus();
    $("query").select();
  } else if (e.key === "t" && state && state.types.length) {
    const names = state.types.map((t) => t.name);
    ui.choose(names[(names.indexOf(state.map ? state.map.type : "") + 1) % names.length]);
  }
});

connect();
