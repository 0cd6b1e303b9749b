"use strict";
// The page is complete without this script but for what is unfolded on demand. Text becomes text nodes, never markup.
(() => {
  const $ = (id) => document.getElementById(id);
  const index = JSON.parse($("index").textContent);
  const signs = JSON.parse($("words").textContent);
  const ROWS = 200;
  const cells = index.cells.map(([anchor, id, outcome, lost, duplicated, reason, scenario, point, semantic, seed, label], n) => ({
    n, anchor, id, outcome: index.outcomes[outcome], lost, duplicated, reason, scenario, semantic, seed, label: label || id,
    text: `${id} ${index.outcomes[outcome]} ${reason} ${point}`.toLowerCase(),
  }));
  const worst = [...cells].sort((a, b) => index.outcomes.indexOf(a.outcome) - index.outcomes.indexOf(b.outcome) || a.n - b.n); // outcomes stand from worst to best
  const byAnchor = new Map(cells.map((cell) => [cell.anchor, cell]));
  const title = document.title;

  // --- making elements ----------------------------------------------------------------------------------------
  const fill = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return element;
  };
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  const name = (outcome) => outcome.replaceAll(" ", "-");
  const counted = (count) => `${count} cell${count === 1 ? "" : "s"}`;
  const shown = (count) => (count === null ? "?" : String(count));
  const seconds = (t) => `${(t / 10000).toFixed(t < 100000 ? 3 : 2)} s`;

  // --- what is folded: the details of index.chunk cells each, deflated JSON ------------------------------------
  const unfolded = new Map();
  const unfold = async (n) => {
    const chunk = Math.floor(n / index.chunk);
    if (!unfolded.has(chunk)) {
      const bytes = Uint8Array.from(atob($(`d${chunk}`).textContent), (letter) => letter.charCodeAt(0));
      unfolded.set(chunk, new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json());
    }
    return (await unfolded.get(chunk))[n % index.chunk];
  };

  // --- the list, filter and search ----------------------------------------------------------------------------
  const state = { only: new Set(), words: [], rows: ROWS };
  const fits = (cell) => (!state.only.size || state.only.has(cell.outcome)) && state.words.every((word) => cell.text.includes(word));
  const visible = () => worst.filter(fits);

  const row = (cell) => h("tr", {},
    h("td", { class: name(cell.outcome) }, `${signs[cell.outcome]} ${cell.outcome}`),
    h("td", {}, h("a", { href: `#cell=${cell.anchor}` }, h("code", {}, cell.label))),
    h("td", { class: "number", "data-name": "lost" }, shown(cell.lost)), h("td", { class: "number", "data-name": "duplicated" }, shown(cell.duplicated)), h("td", {}, cell.reason));

  const filter = () => {
    const all = state.only.size === 0 && state.words.length === 0;
    const found = visible();
    const numbers = new Set(found.map((cell) => cell.n));
    document.querySelectorAll("table.matrix tbody tr").forEach((line) => {
      let any = false;
      line.querySelectorAll("td[data-cells]").forEach((spot) => {
        const hit = all || spot.dataset.cells.split(" ").some((n) => numbers.has(Number(n)));
        spot.classList.toggle("dim", !hit);
        any = any || hit;
      });
      line.hidden = !all && !any;
    });
    $("list").tBodies[0].replaceChildren(...found.slice(0, state.rows).map(row));
    const rest = found.length - state.rows;
    $("more").hidden = rest <= 0;
    $("more").textContent = `${Math.min(rest, ROWS)} more of ${rest}`;
    $("matches").textContent = all ? counted(cells.length) : `${found.length} of ${counted(cells.length)}`;
  };

  const chips = () => {
    for (const outcome of index.outcomes) {
      const count = cells.filter((cell) => cell.outcome === outcome).length;
      if (!count) continue;
      const chip = h("button", { type: "button", "aria-pressed": "false", title: `show only: ${outcome}`, class: name(outcome), onclick: () => {
        const on = chip.getAttribute("aria-pressed") === "true";
        chip.setAttribute("aria-pressed", String(!on));
        if (on) state.only.delete(outcome); else state.only.add(outcome);
        state.rows = ROWS;
        filter();
      } }, `${signs[outcome]} ${count} ${outcome}`);
      $("chips").append(chip, " ");
    }
  };

  const tabs = () => {
    const sheets = [...document.querySelectorAll(".sheet")];
    if (sheets.length < 2) return;
    const buttons = sheets.map((sheet, n) => h("button", {
      type: "button", role: "tab", id: `tab-${n}`, "aria-controls": sheet.id, onclick: () => choose(n),
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const next = (n + step + sheets.length) % sheets.length;
        choose(next);
        buttons[next].focus();
      },
    }, sheet.querySelector("caption").textContent));
    const choose = (chosen) => sheets.forEach((sheet, n) => {
      sheet.hidden = n !== chosen;
      buttons[n].setAttribute("aria-selected", String(n === chosen));
      buttons[n].tabIndex = n === chosen ? 0 : -1;
    });
    sheets.forEach((sheet, n) => { sheet.setAttribute("role", "tabpanel"); sheet.setAttribute("aria-labelledby", `tab-${n}`); });
    $("tabs").append(...buttons);
    $("tabs").hidden = false;
    const red = sheets.findIndex((sheet) => sheet.querySelector("td.broken, td.not-convicted, td.void, td.stuck"));
    choose(Math.max(red, 0));
  };

  // --- the timeline -------------------------------------------------------------------------------------------
  const TOP = 42, LANE = 46;
  const lettering = (words) => 6.6 * words.length; // px: about how wide a label is

  const unpack = (timeline) => {
    const lane = new Map(timeline.lanes.map(([label], n) => [label, n]));
    let t = 0;
    return timeline.messages.map(([later, kind, note, fate, target]) => {
      t += later;
      const [from, to, api, direction] = index.kinds[kind];
      return { t, from: lane.get(from), to: lane.get(to), api, direction, note: note || "", fate: fate || "", target: Boolean(target),
        words: `${target ? "the target: " : ""}${api === "take" ? `${to} takes` : `${api} ${direction}, ${from} → ${to}`}${note ? `: ${note}` : ""}${fate ? ` (${fate})` : ""}` };
    });
  };

  const steps = (timeline, messages) => [
    ...messages.map((m) => ({ t: m.t, lane: m.to, words: m.words, idle: !m.note && !m.fate })),
    ...timeline.marks.map(([, lane, t, words]) => ({ t, lane, words })),
    ...timeline.bands.map(([, lane, t, end, words]) => ({ t, lane, words: `${words}${end === null ? "" : ` (for ${seconds(end - t)})`}` })),
  ].sort((a, b) => a.t - b.t);

  // The axis: time t runs evenly in u, but for the breaks, stretches in which nothing is told; each is drawn equally short.
  const scale = (timeline, even) => {
    const breaks = even ? [] : timeline.breaks;
    const busy = Math.max(timeline.end, 1) - breaks.reduce((sum, [from, to]) => sum + to - from, 0);
    const parts = [];
    let t = 0, u = 0;
    const add = (end, size, broken) => { parts.push({ t, end, u, size, broken }); u += size; t = end; };
    for (const [from, to] of breaks) { add(from, from - t, false); add(to, Math.min(busy * 0.05, to - from), true); }
    add(Math.max(timeline.end, t + 1), Math.max(timeline.end, t + 1) - t, false);
    const last = parts[parts.length - 1];
    return {
      parts, length: u,
      to: (time) => {
        const part = parts.find((one) => time <= one.end) || last;
        return part.u + (time - part.t) * (part.broken ? part.size / (part.end - part.t) : 1);
      },
    };
  };

  const drawTimeline = (timeline, plot) => {
    const messages = unpack(timeline);
    const events = steps(timeline, messages);
    const telling = messages.filter((m) => m.note || m.fate);
    let axis = scale(timeline, false);
    const whole = () => [0, axis.length];
    const dots = plot && drawPlot(plot, timeline, () => ({ axis, view, left: margin(svg, timeline) }));
    const [early, late] = dots ? dots.stretch : [timeline.end, 0];  // no dot is left out, whatever messages are drawn
    const first = Math.min(telling.length ? telling[0].t : 0, early);
    const drain = timeline.bands.filter(([kind, , , end]) => kind === "drain" && end !== null).map(([, , , end]) => end);
    const last = Math.max(drain.length ? drain[0] : timeline.end, late);
    const busy = [Math.max(0, first - (last - first) * 0.03), Math.max(last + (last - first) * 0.03, first + 1)];
    const width = Math.max(span(timeline, telling), 400);
    const near = timeline.fired === null ? busy : [Math.max(0, timeline.fired - width), Math.min(Math.max(timeline.end, 1), timeline.fired + 2 * width)];
    const at = (stretch) => stretch.map((t) => axis.to(t));
    const view = { from: axis.to(busy[0]), to: axis.to(busy[1]), idle: false, at: -1 };
    const svg = s("svg", { role: "img", tabindex: 0, "aria-label": "timeline: arrow keys step through the events, + and - zoom, 0 shows all" });
    const told = h("output", { "aria-live": "polite" });
    const tell = (event) => { told.textContent = event ? `${seconds(event.t)}  ${event.words}` : hint; };
    const hint = "Point at something, or focus the drawing and press → to step through what happened.";
    const set = (from, to) => {
      const least = 20;
      const length = Math.min(Math.max(to - from, least), axis.length * 1.04);
      const start = Math.min(Math.max(from, -axis.length * 0.02), axis.length * 1.02 - length);
      [view.from, view.to] = [start, start + length];
      draw();
    };
    const zoom = (factor, at = (view.from + view.to) / 2) => set(at - (at - view.from) * factor, at + (view.to - at) * factor);
    const draw = () => { paint(svg, timeline, messages, view, events, tell, axis); dots?.paint(); };
    const step = (by) => {
      const among = view.idle ? events : events.filter((event) => !event.idle);
      const now = view.at < 0 ? null : events[view.at];
      const place = now ? among.indexOf(now) + by : among.findIndex((event) => axis.to(event.t) >= view.from);
      const event = among[Math.min(Math.max(place, 0), among.length - 1)];
      if (!event) return;
      view.at = events.indexOf(event);
      tell(event);
      const length = view.to - view.from;
      const u = axis.to(event.t);
      if (u < view.from || u > view.to) set(u - length / 2, u + length / 2); else draw();
    };
    svg.addEventListener("keydown", (event) => {
      const act = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => set(...whole()) }[event.key];
      if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); event.stopPropagation(); act(); }
    });
    const time = (x) => view.from + ((x - svg.getBoundingClientRect().left - margin(svg, timeline)) / (svg.clientWidth - margin(svg, timeline) - 12)) * (view.to - view.from);
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, time(event.clientX));
    }, { passive: false });
    let grabbed = null;
    svg.addEventListener("pointerdown", (event) => { grabbed = [event.clientX, view.from, view.to]; });
    svg.addEventListener("pointermove", (event) => {
      if (!grabbed || !event.buttons) { grabbed = null; return; }
      const moved = ((event.clientX - grabbed[0]) / (svg.clientWidth - margin(svg, timeline) - 12)) * (grabbed[2] - grabbed[1]);
      set(grabbed[1] - moved, grabbed[2] - moved);
    });
    const button = (words, act) => h("button", { type: "button", onclick: act }, words);
    const idle = h("input", { type: "checkbox", onchange: () => { view.idle = idle.checked; draw(); } });
    const even = h("input", { type: "checkbox", onchange: () => {
      axis = scale(timeline, even.checked);
      set(...at(busy));
    } });
    const table = h("details", { ontoggle: () => {
      if (table.open && table.children.length === 1) {
        table.append(h("div", { class: "wide" }, h("table", {}, h("tbody", {}, events.map((event) => h("tr", {}, h("td", {}, seconds(event.t)), h("td", {}, event.lane < 0 ? "" : timeline.lanes[event.lane][0]), h("td", {}, event.words)))))));
      }
    } }, h("summary", {}, "The same as a table"));
    new ResizeObserver(draw).observe(svg);
    tell(null);
    return [dots?.figure, h("div", { class: "timeline" },
      h("div", { class: "bar" }, button("the run", () => set(...at(busy))), timeline.fired === null ? null : button("at the fault", () => set(...at(near))),
        button("all", () => set(...whole())), button("+", () => zoom(0.5)), button("−", () => zoom(2)), h("label", {}, idle, " housekeeping"), timeline.breaks.length ? h("label", {}, even, " idle time to scale") : null,
        messages.some((m) => m.target) ? h("small", { class: "key target" }, "bold: the target") : null,
        h("small", {}, left(timeline.omitted))),
      svg, told, table)];
  };

  const left = ([idle, telling]) => [telling ? `${telling} messages` : "", idle ? `${idle} of the housekeeping` : ""].filter(Boolean).join(" and ") + (idle + telling ? " not drawn: the history has them" : "");

  // how far around the fault one should look: a dozen messages to both sides
  const span = (timeline, telling) => {
    if (timeline.fired === null || !telling.length) return 0;
    const before = telling.filter((m) => m.t <= timeline.fired);
    return before.length ? timeline.fired - before[Math.max(0, before.length - 10)].t : 0;
  };

  // how much room the names of lanes have
  const GUTTER = 116;
  const margin = (svg, timeline) => Math.min(Math.max(GUTTER, ...timeline.lanes.map(([label]) => lettering(label) + 14)), Math.max(GUTTER, svg.clientWidth / 5));

  // labels side by side: each in the first row in which it touches no other, or, where there is none, only in its title
  const labels = () => {
    const rows = new Map();
    return (row, left, words) => {
      const taken = rows.get(row) || [], right = left + lettering(words) * 0.92 + 6;
      if (taken.some(([from, to]) => left < to && right > from)) return false;
      rows.set(row, [...taken, [left, right]]);
      return true;
    };
  };

  // the axis below a drawing, and its breaks
  const drawScale = ({ back, front, axis, view, wide, LEFT, top, bottom, high, place, label, about }) => {
    const shownParts = axis.parts.filter((part) => part.u + part.size >= view.from && part.u <= view.to);
    for (const part of shownParts.filter((one) => one.broken)) {
      const left = Math.max(place(part.u), LEFT), right = Math.min(place(part.u + part.size), wide - 12), middle = (left + right) / 2;
      if (right - left < 2) continue;
      const words = `${((part.end - part.t) / 10000).toFixed(0)} s`, room = lettering(words);
      back.append(about(s("rect", { class: "gap", x: left, y: top, width: right - left, height: bottom - top }), { t: part.t, words: `nothing is told for ${seconds(part.end - part.t)}: drawn short` }));
      front.append(s("path", { class: "break", d: `M${middle - 5} ${bottom + 5}l4 -10m2 10l4 -10M${middle - 5} ${top + 5}l4 -10m2 10l4 -10` }));
      if (label("ticks", middle - room / 2, words)) front.append(s("text", { class: "soft gap-label", x: middle, y: high - 6, "text-anchor": "middle" }, words));
    }
    for (const part of shownParts.filter((one) => !one.broken)) {
      const from = Math.max(part.t, part.t + view.from - part.u), to = Math.min(part.end, part.t + view.to - part.u);
      const most = Math.max(1, Math.min(7, (wide - LEFT) / 70) * ((to - from) / (view.to - view.from)));
      for (const tick of ticks(from, to, most)) {
        back.append(s("line", { class: "grid", x1: place(axis.to(tick)), x2: place(axis.to(tick)), y1: top, y2: bottom }));
        if (label("ticks", place(axis.to(tick)) - lettering(seconds(tick)) / 2, seconds(tick))) back.append(s("text", { class: "soft", x: place(axis.to(tick)), y: high - 6, "text-anchor": "middle" }, seconds(tick)));
      }
    }
  };

  const paint = (svg, timeline, messages, view, events, tell, axis) => {
    const LEFT = margin(svg, timeline);
    const wide = Math.max(svg.clientWidth, 320), high = TOP + timeline.lanes.length * LANE + 22;
    const place = (u) => LEFT + ((u - view.from) / (view.to - view.from)) * (wide - LEFT - 12);
    const x = (t) => place(axis.to(t));
    const y = (lane) => TOP + lane * LANE + LANE / 2;
    const inside = (t) => axis.to(t) >= view.from && axis.to(t) <= view.to;
    const label = labels();
    const bottom = TOP + timeline.lanes.length * LANE;
    const wire = timeline.lanes.findIndex(([, kind]) => kind === "wire");
    const about = (element, event) => {
      element.append(s("title", {}, `${seconds(event.t)}  ${event.words}`));
      element.addEventListener("pointerenter", () => tell(event));
      return element;
    };
    svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    svg.setAttribute("height", high);
    const back = s("g"), lines = s("g"), front = s("g");
    drawScale({ back, front, axis, view, wide, LEFT, top: TOP, bottom, high, place, label, about });
    const letters = Math.floor((LEFT - 12) / 6.6);
    timeline.lanes.forEach(([label], n) => back.append(
      s("line", { class: "lane", x1: LEFT, x2: wide - 12, y1: y(n), y2: y(n) }),
      s("text", { x: 4, y: y(n) + 4 }, label.length > letters ? `${label.slice(0, letters - 1)}…` : label, s("title", {}, label))));
    for (const [kind, lane, start, end, words] of timeline.bands) {
      const to = end === null ? timeline.end : end;
      if (axis.to(to) < view.from || axis.to(start) > view.to) continue;
      const left = Math.max(x(start), LEFT), size = Math.max(Math.min(x(to), wide - 12) - left, 1.5);
      const event = { t: start, words };
      if (lane < 0) {
        back.append(about(s("rect", { class: kind, x: left, y: TOP - 4, width: size, height: bottom - TOP + 4 }), event));
        if (kind === "fault" && inside(start)) back.append(s("line", { class: "fault-edge", x1: x(start), x2: x(start), y1: TOP - 10, y2: bottom }));
        if (size > 40 || kind === "fault") {
          const said = words.length > 60 ? `${words.slice(0, 59)}…` : words;
          const from = Math.max(LEFT, Math.min(left + 3, wide - 14 - lettering(said) * 0.92));
          const row = [0, 1].find((one) => label(one, from, said));
          if (row !== undefined) back.append(s("text", { class: "soft", x: from, y: 12 + 15 * row }, said));
        }
      } else {
        const [top, tall] = { life: [-3, 6], transaction: [-11, 5], batch: [-11, 5], pause: [-7, 14], network: [8, 5], refused: [5, 7] }[kind] || [-3, 6];
        const odd = (kind === "transaction" || kind === "batch") && !words.includes("committed") ? " odd" : "";
        back.append(about(s("rect", { class: kind + odd, x: left, y: y(lane) + top, width: size, height: tall, rx: 2 }), event));
      }
    }
    for (const m of messages) {
      if (!inside(m.t) || (!view.idle && !m.note && !m.fate)) continue;
      const look = (m.fate ? " stopped" : m.api === "take" ? " take" : m.note ? "" : " idle") + (m.target ? " target" : "");
      const crosses = wire >= 0 && (wire - m.from) * (wire - m.to) < 0;
      const end = m.fate ? (crosses ? y(wire) : (y(m.from) + y(m.to)) / 2) : y(m.to);
      const down = end > y(m.from) ? 1 : -1, at = x(m.t);
      const line = s("g", {}, s("line", { class: `msg ${m.direction}${look}`, x1: at, x2: at, y1: y(m.from) + 3 * down, y2: end - (m.fate ? 0 : 4 * down) }));
      if (m.fate) line.append(s("path", { class: "cross", d: `M${at - 4} ${end - 4}l8 8m0 -8l-8 8` }));
      else line.append(s("path", { class: `tip${look}`, d: `M${at} ${end - 2 * down}l-3.2 ${-5 * down}h6.4z` }));
      (m.target ? front : lines).append(about(line, m));
    }
    for (const [kind, lane, t, words] of timeline.marks) {
      if (!inside(t)) continue;
      const at = x(t), to = y(lane);
      const shape = kind === "kill" ? `M${at - 6} ${to - 6}l12 12m0 -12l-12 12` : kind === "hit" || kind === "forgot" ? `M${at + 2} ${to - 9}l-7 10h5l-2 8l7 -10h-5z`
        : kind === "ready" || kind === "resumed" ? `M${at - 4} ${to - 5}l8 5l-8 5z` : kind === "rebalance" ? `M${at} ${to - 5}l5 5l-5 5l-5 -5z` : `M${at - 3} ${to}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0`;
      front.append(about(s("path", { class: `mark ${kind}`, d: shape }), { t, words }));
      if (kind === "found") front.append(s("text", { class: "soft", x: Math.max(Math.min(at, wide - 14), LEFT + lettering(words)), y: to - 8, "text-anchor": "end" }, words));
    }
    const picked = view.at >= 0 ? events[view.at] : null;
    if (picked && inside(picked.t)) {
      front.append(s("line", { class: "picked", x1: x(picked.t), x2: x(picked.t), y1: TOP - 4, y2: bottom }));
      if (picked.lane >= 0) front.append(s("circle", { class: "picked", cx: x(picked.t), cy: y(picked.lane), r: 9 }));
    }
    svg.replaceChildren(back, lines, front);
  };

  const ticks = (from, to, most) => {
    const rough = (to - from) / most;
    const ten = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    const size = [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= rough) || ten;
    const found = [];
    for (let t = Math.max(0, Math.ceil(from / size) * size); t <= to; t += size) found.push(t);
    return found;
  };

  // --- the plot: a dot for each record, at the time of its first send -------------------------------------------
  const ROW = 26, FATES = {
    recorded: ["recorded once", "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0"],
    duplicated: ["duplicated", "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0M-1.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0 -3 0"],
    lost: ["lost", "M-4.5 -4.5l9 9m0 -9l-9 9"],
    "set aside": ["set aside", "M-4 -4h8v8h-8z"],
    superseded: ["superseded", "M-4.5 0h9"],
    unsure: ["unsure", "M0 -5l5 9h-10z"],
    "in doubt": ["in doubt", "M0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z"],
  };

  const drawPlot = ([all, lost, extra], timeline, look) => {
    const rows = all.filter(([fate, count], n) => n < 3 || count).map(([fate, count, later, said]) => {
      let t = 0;
      return { fate, count, dots: later.map((step, n) => ({ t: step < 0 ? null : (t += step), said: said ? said[n].filter(Boolean).join(": ") : FATES[fate][0] })) };
    });
    const [, , from, to, words] = timeline.bands.find(([kind]) => kind === "fault") || [];
    const records = rows.reduce((sum, row) => sum + row.count, 0), hidden = records - rows.reduce((sum, row) => sum + row.dots.length, 0);
    const adrift = rows.some((row) => row.dots.some((dot) => dot.t === null));
    const caption = [`${records} records, each at the time of its first send: ${rows.filter((row) => row.count).map((row) => `${row.count} ${FATES[row.fate][0]}`).join(", ")}.`,
      words ? `Band: ${words}, ${seconds(from)}${to === null ? ", to the end" : ` to ${seconds(to)}`}.` : "No fault struck.",
      adrift ? "At the left edge: no send was seen." : "", hidden ? `${hidden} more are not drawn.` : "",
      lost || extra ? `A total shows ${lost} more lost, and ${extra} more copies, of records that no line names.` : ""].filter(Boolean).join(" ");
    const svg = s("svg", { role: "img" });
    const paint = () => {
      const { axis, view, left: LEFT } = look(svg);
      const wide = Math.max(svg.clientWidth, 280), top = 8, bottom = top + rows.length * ROW, high = bottom + 22;
      const place = (u) => LEFT + ((u - view.from) / (view.to - view.from)) * (wide - LEFT - 12);
      const back = s("g"), front = s("g"), inside = (u) => u >= view.from && u <= view.to;
      svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
      svg.setAttribute("height", high);
      const about = (element, event) => { element.append(s("title", {}, event.words)); return element; };
      drawScale({ back, front, axis, view, wide, LEFT, top, bottom, high, place, label: labels(), about });
      if (words) {
        const start = Math.max(place(axis.to(from)), LEFT), end = Math.min(place(axis.to(to ?? timeline.end)), wide - 12);
        if (end >= LEFT && start <= wide - 12) back.append(about(s("rect", { class: "fault", x: start, y: top - 4, width: Math.max(end - start, 2), height: bottom - top + 4 }), { words }), s("line", { class: "fault-edge", x1: start, x2: start, y1: top - 4, y2: bottom }));
      }
      rows.forEach(({ fate, count, dots }, n) => {
        const y = top + n * ROW + ROW / 2, shape = FATES[fate][1], taken = [-99, -99, -99];
        back.append(s("line", { class: "lane", x1: LEFT, x2: wide - 12, y1: y, y2: y }),
          s("path", { class: `dot f-${name(fate)}`, d: shape, transform: `translate(10 ${y})` }), s("text", { class: count ? "" : "soft", x: 22, y: y + 4 }, fate),
          s("text", { class: count ? "figure" : "figure soft", x: LEFT - 8, y: y + 4, "text-anchor": "end" }, count));
        for (const dot of dots) {
          const u = dot.t === null ? view.from : axis.to(dot.t);
          if (!inside(u)) continue;
          const x = place(u), free = taken.findIndex((last) => x - last >= 6), level = free < 0 ? taken.indexOf(Math.min(...taken)) : free; // beside, else above and below the line
          taken[level] = x;
          front.append(about(s("path", { class: `dot f-${name(fate)}`, "data-fate": fate, d: shape, transform: `translate(${x.toFixed(1)} ${y + [0, -7, 7][level]})` }),
            { words: `${dot.said}, ${dot.t === null ? "no send was seen" : `sent at ${seconds(dot.t)}`}` }));
        }
      });
      svg.replaceChildren(s("title", {}, caption), back, front);
    };
    const table = h("details", {}, h("summary", {}, "The dots as a table"), h("div", { class: "wide" }, h("table", {}, h("tbody", {}, rows.flatMap(({ fate, count, dots }) => {
      const line = (dot, words) => h("tr", {}, h("td", { class: "number" }, !dot || dot.t === null ? "" : seconds(dot.t)), h("td", {}, FATES[fate][0]), h("td", {}, words));
      return fate === "recorded" || !count ? [line(dots[0], `${count} records`)] : dots.map((dot) => line(dot, dot.said));
    })))));
    const moments = [...rows.flatMap((row) => row.dots.map((dot) => dot.t)), from, to].filter((t) => t !== null && t !== undefined);
    return { figure: h("figure", { class: "dots" }, svg, h("figcaption", {}, caption), table), paint, stretch: [Math.min(...moments, timeline.end), Math.max(...moments, 0)] };
  };

  // the plot alone, from the first dot to the last, or to the end of the fault
  const standing = ({ plot, timeline }) => {
    const axis = scale(timeline, false), drawn = drawPlot(plot, timeline, () => ({ axis, view, left: GUTTER }));
    const [first, last] = drawn.stretch.map(axis.to), edge = Math.max((last - first) * 0.03, 10), view = { from: first - edge, to: last + edge };
    new ResizeObserver(drawn.paint).observe(drawn.figure.firstChild);
    return drawn.figure;
  };

  // --- ribbons and paths --------------------------------------------------------------------------------------
  const LETTERS = { lost: "L", duplicated: "D", again: "2", aborted: "A", left: "R", phantom: "P" };
  const WORDS = { recorded: "recorded once", lost: "lost", duplicated: "duplicated", again: "a second copy, not recorded again", aborted: "aborted", left: "left where it is", phantom: "phantom" };

  const drawRibbon = ([label, start, end, stretches, flushed, cut], most) => {
    const length = Math.max(end - start, 1), unit = 1000 / length;
    const svg = s("svg", { viewBox: "0 0 1000 22", preserveAspectRatio: "none", role: "img", "aria-label": label });
    svg.style.width = `${Math.max((100 * length) / most, 0.5)}%`;
    for (const [kind, from, to] of stretches) {
      const left = (from - start) * unit, size = (to - from + 1) * unit;
      const words = `${from === to ? from : `${from}–${to}`}: ${WORDS[kind]}`;
      svg.append(s("rect", { class: `s-${kind}`, x: left, y: kind === "recorded" ? 4 : 0, width: Math.max(size - (unit > 4 ? 1 : 0), 0.6), height: kind === "recorded" ? 14 : 22 }, s("title", {}, words)));
    }
    if (flushed !== null) svg.append(s("line", { class: "flush", x1: (flushed - start) * unit, x2: (flushed - start) * unit, y1: 0, y2: 22 }, s("title", {}, `flushed up to ${flushed}`)));
    const odd = stretches.filter(([kind]) => kind !== "recorded");
    const words = odd.slice(0, 12).map(([kind, from, to]) => `${LETTERS[kind]} ${from === to ? from : `${from}–${to}`}`).join(", ");
    return h("div", { class: "ribbon" }, h("p", {}, h("b", {}, label), ` ${end - start ? `${start}–${end - 1}` : "empty"}`, words ? `: ${words}` : "", odd.length > 12 ? ` and ${odd.length - 12} more stretches` : "",
      flushed === null ? "" : `; flushed up to ${flushed}`, cut ? `; ${cut} stretches not drawn` : ""), svg);
  };

  // a rolled-back checkpoint: what the state of each key held, and the offsets, at three moments
  const drawRollback = ([moments, torn]) => {
    const keys = [...new Set(moments.flatMap((moment) => moment[3].map(([key]) => key)))].sort();
    const most = Math.max(...moments.flatMap((moment) => moment[3].map(([, held]) => held)), 1);
    const parts = moments.map(([, called]) => called.split("; ")), top = 26 + 16 * Math.max(...parts.map((said) => said.length));
    const wide = 300, left = 62, unit = (wide - left - 46) / most, high = top + 36 + keys.length * 18;
    const words = moments.map(([what, called, offsets, state]) => `${what}: ${state.reduce((sum, [, held]) => sum + held, 0)} records in the state, ${called}, offsets ${offsets.map(([partition, offset]) => `${partition}: ${offset}`).join(", ")}`);
    const svg = s("svg", { viewBox: `0 0 ${wide * 3} ${high}`, role: "img", "aria-label": words.join("; ") });
    const before = new Map(moments[0][3]);
    moments.forEach(([what, , offsets, state], n) => {
      const held = new Map(state), x = n * wide;
      svg.append(s("text", { x, y: 14 }, what), ...parts[n].map((said, line) => s("text", { x, y: 30 + 16 * line, class: "soft" }, said)));
      keys.forEach((key, line) => {
        const y = top + line * 18, count = held.get(key) || 0, gone = n === 1 ? (before.get(key) || 0) - count : 0;
        svg.append(s("text", { x, y: y + 11, class: "soft" }, key.slice(0, 9)), s("rect", { class: "s-recorded", x: x + left, y, width: count * unit, height: 13 }, s("title", {}, `${key}: ${count}`)));
        if (gone > 0) svg.append(s("rect", { class: "gone", x: x + left + count * unit, y, width: gone * unit, height: 13 }, s("title", {}, `${key}: ${gone} rolled back`)));
        svg.append(s("text", { x: x + left + (count + Math.max(gone, 0)) * unit + 5, y: y + 11, class: "soft" }, gone > 0 ? `${count} (−${gone})` : count));
      });
      svg.append(s("text", { x, y: high - 12, class: "soft" }, `offsets ${offsets.map(([partition, offset]) => `${partition}: ${offset}`).join(", ")}`));
    });
    return h("div", { class: "rollback wide" }, svg, torn.length ? h("p", { class: "bad" }, `The state of ${torn.join(", ")} did not go back to where the offsets did.`) : null);
  };

  const drawPath = ([record, key, position, fate, sentence, hops, usually], targets, open) => {
    const letters = [...new Set(hops.map((hop) => hop[3]).filter(Boolean))];
    const body = hops.map(([ms, by, text, copy, bad]) => {
      const way = letters.indexOf(copy);
      const cells = !letters.length ? [h("td", {}, text)]
        : way < 0 ? [h("td", { colspan: letters.length }, text)]
          : letters.map((letter, n) => h("td", { class: "way" }, n === way ? h("span", { class: "letter" }, `${letter} `) : null, n === way ? text : null));
      return h("tr", { class: bad ? "odd" : null }, h("td", {}, ms === null ? "at rest" : `${ms.toFixed(1)} ms`), h("td", {}, by), cells);
    });
    return h("details", { class: "path", open },
      h("summary", {}, h("b", {}, record), targets.includes(record) ? " (the target)" : "", ` · ${sentence}`),
      usually ? h("p", { class: "usually" }, usually) : null,
      h("div", { class: "wide" }, h("table", {}, h("tbody", {}, body))));
  };

  // --- one cell -----------------------------------------------------------------------------------------------
  const definitions = (pairs, name) => h("dl", { class: name }, pairs.filter(([, value]) => value !== null).map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));

  const settingsCard = (detail) => h("section", { class: "card" }, h("h3", {}, "Settings"),
    detail.own ? h("p", {}, "Your programs have their own settings; lostack knows only those in the declaration.") : detail.different.length
      ? h("table", {}, h("thead", {}, h("tr", {}, ["setting", "here", "recipe"].map((word) => h("th", { scope: "col" }, word)))), h("tbody", {}, detail.different.map((line) => h("tr", {}, line.map((word) => h("td", {}, word))))))
      : h("p", {}, "The recipe of this semantic, unchanged."),
    h("details", {}, h("summary", {}, detail.own ? "the declaration" : "all settings"), definitions(index.settings[detail.settings])));

  const proofCard = (detail) => h("section", { class: "card" }, h("h3", {}, "Proof that the fault fired"),
    h("ul", {}, detail.proof.map((line) => h("li", {}, line))), h("h3", { class: "sign" }, detail.own ? "Effect of the fault" : "Sign that the protection worked"),
    detail.sign === null ? h("p", {}, detail.own ? "There is no fault." : "No sign is needed: an effect is predicted, or there is no fault.")
      : h("p", { class: detail.sign[1] ? "good" : "bad" }, `${detail.sign[1] ? "✔" : "✘"} ${detail.sign[0]}`));

  const countsCard = (cell, detail) => h("section", { class: "card" }, h("h3", {}, "Counted"),
    h("p", { class: "counts-list" }, detail.counts.map(([what, count]) => h("span", {}, h("b", {}, String(count)), ` ${what}`))),
    definitions([[detail.own ? "claimed" : "predicted", `lost ${detail.predicted[0]}, duplicated ${detail.predicted[1]}`], ["target", detail.targets.join(", ")],
      ["seconds", `${detail.seconds} (${Object.entries(detail.phases).map(([phase, spent]) => `${phase} ${spent}`).join(", ")})`], ["cell", detail.own ? cell.id : null], ["saved", detail.directory],
      ["history", detail.trouble.length ? `cut or damaged: ${detail.trouble.join(", ")}` : null],
      ["files", detail.files.length ? detail.files.map(([words, to]) => [h("a", { href: to }, words), " "]) : null]]));

  const seenCard = (detail) => {
    const [path] = detail.paths.filter((one) => one[3] === "lost" || one[3] === "duplicated");
    return path && h("section", { class: "card" }, h("h3", {}, "What was seen"), h("p", {}, h("b", {}, path[0]), ` ${path[4]}`), path[6] ? h("p", { class: "usually" }, path[6]) : null);
  };

  const evidenceCard = (detail) => detail.evidence.length > 0 && h("section", { class: "card" }, h("h3", {}, "What the verdict rests on"), definitions(detail.evidence, "rests"));

  const nextCard = (detail) => h("section", { class: "card" }, h("h3", {}, "Next"), h("p", {}, index.texts[detail.next]),
    h("h3", {}, "Again"), h("pre", { class: "line" }, detail.rerun));

  const mendCard = (detail) => detail.mends && h("section", { class: "card" }, h("h3", {}, "How to fix it"), h("p", {}, detail.mends));

  const lastCard = (detail) => detail.last.length > 0 && h("section", { class: "card" }, h("h3", {}, "Last words"),
    detail.last.map(([stage, lines]) => [h("p", {}, `The ${stage} ended by an error; ${lines.length ? "it last said:" : "it printed nothing."}`),
      lines.length ? h("pre", { class: "line" }, lines.join("\n")) : null]));

  const brothers = (cell) => cells.filter((other) => other.scenario === cell.scenario && other.semantic === cell.semantic && other.id.split("/s")[0] === cell.id.split("/s")[0]);

  const drawCell = (cell, detail) => {
    const same = brothers(cell);
    const [plot, timeline] = detail.timeline ? drawTimeline(detail.timeline, detail.plot) : [];
    const most = Math.max(...detail.ribbons.map(([, start, end]) => end - start), 1);
    const open = (path) => path[3] === "lost" || path[3] === "duplicated" || detail.targets.includes(path[0]);
    return [
      h("div", { class: "bar" }, h("a", { href: "#" }, "← all cells"), h("button", { type: "button", onclick: () => move(-1) }, "previous (k)"), h("button", { type: "button", onclick: () => move(1) }, "next (j)")),
      h("h1", {}, cell.label), h("p", {}, h("span", { class: `chip ${name(cell.outcome)}` }, `${signs[cell.outcome]} ${cell.outcome}`), ` lost ${shown(cell.lost)}, duplicated ${shown(cell.duplicated)}`),
      h("p", { class: "why" }, cell.reason), h("p", {}, index.texts[detail.because]),
      same.length > 1 ? h("p", { class: "seeds" }, "seeds:", same.map((one) => h("a", { href: `#cell=${one.anchor}`, class: name(one.outcome), "aria-current": one === cell ? "true" : null }, `${signs[one.outcome]} ${one.seed}`))) : null,
      plot && [h("h2", {}, "What became of each record"), plot],
      seenCard(detail), evidenceCard(detail), mendCard(detail), lastCard(detail),
      h("h2", {}, "Timeline"), timeline || h("p", {}, "The history is missing or cannot be read."),
      h("div", { class: "cards" }, proofCard(detail), countsCard(cell, detail), settingsCard(detail), nextCard(detail)),
      detail.ribbons.length ? [h("h2", {}, "Where it fell"), h("p", { class: "legend" }, Object.entries(WORDS).filter(([kind]) => detail.ribbons.some((ribbon) => ribbon[3].some(([one]) => one === kind)))
        .map(([kind, words]) => h("span", { class: "key" }, s("svg", { width: 12, height: 12 }, s("rect", { class: `s-${kind}`, width: 12, height: 12 })), ` ${LETTERS[kind] ? `${LETTERS[kind]} ` : ""}${words}`))),
      detail.ribbons.map((ribbon) => drawRibbon(ribbon, most))] : null,
      detail.rollback ? [h("h2", {}, "The checkpoint: records in the state of each key, and offsets"), drawRollback(detail.rollback)] : null,
      detail.paths.length ? [h("h2", {}, "The paths of single records"), detail.paths.map((path, n) => drawPath(path, detail.targets, n < 3 && open(path)))] : null,
      detail.more ? h("p", {}, `${detail.more} more lost or duplicated records: see anomalies.jsonl beside this page.`) : null,
    ];
  };

  const current = () => byAnchor.get(location.hash.startsWith("#cell=") ? location.hash.slice(6) : "");
  const move = (by) => {
    const among = visible(), now = current();
    const next = among[(now ? among.indexOf(now) : by > 0 ? -1 : among.length) + by];
    if (next) location.hash = `cell=${next.anchor}`;
  };
  let place = 0;
  const route = async () => {
    const cell = current();
    const drawn = cell ? [drawCell(cell, await unfold(cell.n))].flat(3).filter(Boolean) : [];
    if (current() !== cell) return; // somebody went on meanwhile
    const before = $("overview").hidden;
    if (cell && !before) place = scrollY;
    $("overview").hidden = Boolean(cell);
    document.querySelector("header").hidden = Boolean(cell);
    $("cell").hidden = !cell;
    $("cell").replaceChildren(...drawn);
    $("cell").dataset.shown = cell ? cell.anchor : "";
    document.title = cell ? `${signs[cell.outcome]} ${cell.label}` : title;
    if (cell) { scrollTo(0, 0); $("cell").focus({ preventScroll: true }); } else if (before) scrollTo(0, place);
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement && event.target.type === "search";
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") { if (typing) event.target.blur(); else if (current()) location.hash = ""; return; }
    if (typing) return;
    if (event.key === "/" && !current()) { event.preventDefault(); $("search").focus(); }
    if (event.key === "j") move(1);
    if (event.key === "k") move(-1);
  });
  $("search").addEventListener("input", () => {
    state.words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    state.rows = ROWS;
    filter();
  });
  $("tools").addEventListener("submit", (event) => event.preventDefault());
  $("more").addEventListener("click", () => { state.rows += ROWS; filter(); });
  $("tools").hidden = false;
  $("cells").hidden = false;
  for (const place of document.querySelectorAll(".plot")) {
    unfold(byAnchor.get(place.dataset.anchor).n).then((detail) => detail.plot && detail.timeline && place.append(standing(detail)));
  }
  chips();
  tabs();
  filter();
  addEventListener("hashchange", route);
  route();
})();
