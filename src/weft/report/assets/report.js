// SPDX-License-Identifier: MIT
// The two live pictures: a map on a canvas and a series by uPlot. What they show at any time stands in window.weft.
(() => {
  "use strict";
  const live = JSON.parse(document.getElementById("live").textContent);
  const byId = (id) => document.getElementById(id);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Whole numbers between a lowest and a highest value; the last code says that there is none.
  function unpack(packed) {
    const text = atob(packed.codes);
    const none = packed.bits === 8 ? 255 : 65535;
    const step = (packed.high - packed.low) / (none - 1);
    const count = packed.bits === 8 ? text.length : text.length / 2;
    const numbers = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      const code = packed.bits === 8 ? text.charCodeAt(i) : text.charCodeAt(2 * i) + 256 * text.charCodeAt(2 * i + 1);
      numbers[i] = code === none ? NaN : packed.low + code * step;
    }
    return numbers;
  }

  // Enough digits to tell numbers apart that differ by a thousandth of the range.
  function written(value, range) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(Math.max(range, 1e-9)))));
    return value.toFixed(digits);
  }
  const withUnits = (text, units) => (units ? text + " " + units : text);

  function roundTicks(low, high, about) {
    const rough = (high - low) / about;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
    const ticks = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) ticks.push(k * step);
    return { ticks, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
  }

  function degrees(value, digits, positive, negative) {
    return Math.abs(value).toFixed(digits) + "°" + (value > 0 ? positive : value < 0 ? negative : "");
  }

  function colourOf(layer, value, [low, high]) {
    const share = (value - low) / (high - low);
    const k = 3 * Math.max(0, Math.min(254, Math.round(254 * share)));
    return "rgb(" + layer.palette[k] + "," + layer.palette[k + 1] + "," + layer.palette[k + 2] + ")";
  }

  const stations = live.series.stations;
  const state = { frame: null, time: null, layer: null, station: null };
  window.weft = { state };

  // ---------------------------------------------------------------- map
  function makeMap(map) {
    const [west, south, east, north] = map.box;
    const ratio = ((north - south) * map.stretch) / (east - west);
    const cells = map.width * map.height;
    const layers = map.layers.map((layer) => ({
      ...layer,
      low: layer.numbers.low,
      high: layer.numbers.high,
      values: unpack(layer.numbers),
      palette: Uint8Array.from(atob(layer.palette), (c) => c.charCodeAt(0)),
    }));
    const observed = unpack(map.observed);
    const plotbox = byId("plotbox"), canvas = byId("canvas"), slider = byId("frame");
    plotbox.style.aspectRatio = "1 / " + ratio;
    byId("map").style.setProperty("--ratio", ratio);
    const small = document.createElement("canvas");
    small.width = map.width;
    small.height = map.height;
    const share = (x, y) => [(x - west) / (east - west), (north - y) / (north - south)];

    function ticks() {
      const box = byId("ticks");
      box.replaceChildren();
      // Shares of the map's sides, which hold for any size it is printed in.
      const add = (text, kind, part) => {
        const span = document.createElement("span");
        span.textContent = text;
        span.className = kind;
        span.style.setProperty("--share", part);
        box.append(span);
      };
      const across = roundTicks(west, east, Math.max(2, plotbox.clientWidth / 85));
      for (const x of across.ticks) {
        const turned = ((((x + 180) % 360) + 360) % 360) - 180;
        add(map.is_geographic ? degrees(turned, across.digits, "E", "W") : x.toFixed(across.digits), "x", share(x, 0)[0]);
      }
      const up = roundTicks(south, north, Math.max(2, plotbox.clientHeight / 90));
      for (const y of up.ticks) {
        add(map.is_geographic ? degrees(y, up.digits, "N", "S") : y.toFixed(up.digits), "y", share(0, y)[1]);
      }
      if (!map.is_geographic) byId("map").title = map.axes[1] + " (upwards) against " + map.axes[0];
    }

    function lines(context, all, width, colour, dash) {
      context.beginPath();
      for (const line of all) {
        for (let i = 0; i < line.length; i += 2) {
          const [u, v] = share(line[i], line[i + 1]);
          const x = u * canvas.width, y = v * canvas.height;
          if (i === 0) context.moveTo(x, y);
          else context.lineTo(x, y);
        }
      }
      context.setLineDash(dash);
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.stroke();
      context.setLineDash([]);
    }

    // Lowest and highest number of the frame shown.
    function extremes() {
      const layer = layers[state.layer], first = state.frame * cells;
      let low = Infinity, high = -Infinity;
      for (let i = 0; i < cells; i++) {
        const value = layer.values[first + i];
        if (value < low) low = value;
        if (value > high) high = value;
      }
      return [low, high];
    }

    // What the colours run over: all frames, or the one shown.
    function limits() {
      const layer = layers[state.layer], [low, high] = extremes();
      return byId("stretch").checked && high > low ? [low, high] : [layer.low, layer.high];
    }

    function draw() {
      const layer = layers[state.layer], first = state.frame * cells, over = limits();
      const scale = window.devicePixelRatio || 1;
      canvas.width = Math.max(2, Math.round(plotbox.clientWidth * scale));
      canvas.height = Math.max(2, Math.round(plotbox.clientHeight * scale));
      const context = canvas.getContext("2d");
      const pixels = small.getContext("2d").createImageData(map.width, map.height);
      const spread = over[1] - over[0];
      for (let i = 0; i < cells; i++) {
        const k = 3 * Math.round((254 * (layer.values[first + i] - over[0])) / spread);
        pixels.data.set([layer.palette[k], layer.palette[k + 1], layer.palette[k + 2], 255], 4 * i);
      }
      small.getContext("2d").putImageData(pixels, 0, 0);
      context.imageSmoothingEnabled = true;
      context.imageSmoothingQuality = "high";
      context.drawImage(small, 0, 0, canvas.width, canvas.height);
      lines(context, map.states, 0.8 * scale, "rgba(0,0,0,.4)", [1.5 * scale, 2.5 * scale]);
      lines(context, map.borders, scale, "rgba(255,255,255,.35)", []);
      lines(context, map.borders, 0.9 * scale, "rgba(0,0,0,.55)", [4 * scale, 3 * scale]);
      lines(context, map.coast, 2.4 * scale, "rgba(255,255,255,.35)", []);
      lines(context, map.coast, 1.1 * scale, "rgba(0,0,0,.8)", []);
      if (map.km_across > 0) scaleBar(context, scale);
      for (const [x, y] of map.pseudo_points) {
        const [u, v] = share(x, y);
        cross(context, u * canvas.width, v * canvas.height, 4.5 * scale, scale);
      }
      const count = map.markers.length;
      for (let k = stations.length; k < count; k++) {
        const value = observed[state.frame * count + k];
        const [u, v] = share(...map.markers[k]);
        context.beginPath();
        context.arc(u * canvas.width, v * canvas.height, 2.6 * scale, 0, 7);
        context.fillStyle = state.layer === 0 && Number.isFinite(value) ? colourOf(layer, value, over) : "rgba(0,0,0,.55)";
        context.fill();
        context.lineWidth = 0.8 * scale;
        context.strokeStyle = "rgba(255,255,255,.85)";
        context.stroke();
      }
      buttons.forEach((button, k) => {
        const value = observed[state.frame * count + k];
        const shown = state.layer === 0 && Number.isFinite(value);
        button.style.setProperty("--fill", shown ? colourOf(layer, value, over) : "transparent");
        const words = Number.isFinite(value) ? withUnits(written(value, layers[0].high - layers[0].low), live.units) : "no value";
        button.setAttribute("aria-label", stations[k].name + ": " + words + " at this time");
      });
    }

    // A round number of kilometres, about a fifth of the map, in its lower left corner.
    function scaleBar(context, scale) {
      const wanted = 0.2 * map.km_across, power = 10 ** Math.floor(Math.log10(wanted));
      const length = power * Math.max(...[1, 2, 5].filter((each) => each * power <= wanted * (1 + 1e-9)));
      const wide = (length / map.km_across) * canvas.width, x = 12 * scale, y = canvas.height - 12 * scale;
      for (const [width, colour] of [[5, "rgba(255,255,255,.8)"], [2, "#000"]]) {
        context.beginPath();
        context.moveTo(x, y);
        context.lineTo(x + wide, y);
        context.lineWidth = width * scale;
        context.strokeStyle = colour;
        context.stroke();
      }
      context.font = 11 * scale + "px system-ui, sans-serif";
      context.textAlign = "center";
      context.lineWidth = 3 * scale;
      context.strokeStyle = "rgba(255,255,255,.8)";
      context.strokeText(length + " km", x + wide / 2, y - 6 * scale);
      context.fillStyle = "#000";
      context.fillText(length + " km", x + wide / 2, y - 6 * scale);
    }

    function cross(context, x, y, size, scale) {
      for (const [width, colour] of [[3.2, "rgba(0,0,0,.7)"], [1.5, "#fff"]]) {
        context.beginPath();
        context.moveTo(x - size, y);
        context.lineTo(x + size, y);
        context.moveTo(x, y - size);
        context.lineTo(x, y + size);
        context.lineWidth = width * scale;
        context.strokeStyle = colour;
        context.stroke();
      }
    }

    function words() {
      const layer = layers[state.layer], [low, high] = extremes(), over = limits();
      const spread = over[1] - over[0];
      const range = written(low, spread) + " to " + withUnits(written(high, spread), layer.units);
      canvas.setAttribute("aria-label", "Map of " + layer.label + " at " + state.time + ": from " + range + ".");
      byId("map-time").textContent = state.time;
      slider.setAttribute("aria-valuetext", state.time);
      byId("bar-label").textContent = withUnits(layer.label, layer.units ? "(" + layer.units + ")" : "");
      const stops = [];
      for (let k = 0; k <= 16; k++) stops.push(colourOf(layer, over[0] + (spread * k) / 16, over));
      byId("bar").style.background = "linear-gradient(to right," + stops.join(",") + ")";
      byId("bar-ticks").replaceChildren(
        ...[0, 0.25, 0.5, 0.75, 1].map((part) => {
          const span = document.createElement("span");
          span.textContent = written(over[0] + part * spread, spread);
          return span;
        }),
      );
    }

    function show(frame, layer) {
      state.frame = frame;
      state.layer = layer;
      state.time = map.times[frame];
      draw();
      words();
    }

    // One station in the order of tabs at a time; arrows move to the nearest in their direction.
    const buttons = stations.map((station, k) => {
      const button = document.createElement("button");
      const [u, v] = share(...map.markers[k]);
      button.type = "button";
      button.style.left = 100 * u + "%";
      button.style.top = 100 * v + "%";
      button.title = station.name;
      button.tabIndex = -1;
      button.addEventListener("click", () => select(k));
      button.addEventListener("keydown", (event) => {
        const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
        if (!way) return;
        event.preventDefault();
        const next = nearest(k, way);
        if (next !== null) focusOn(next);
      });
      return button;
    });
    byId("markers").append(...buttons);

    function nearest(from, [dx, dy]) {
      const here = share(...map.markers[from]);
      let best = null, least = Infinity;
      stations.forEach((_, k) => {
        const there = share(...map.markers[k]);
        const x = there[0] - here[0], y = (there[1] - here[1]) * ratio;
        const along = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
        if (k === from || along <= 1e-9) return;
        const cost = along + 2 * aside;
        if (cost < least) [best, least] = [k, cost];
      });
      return best;
    }

    function focusOn(k) {
      buttons.forEach((button, other) => (button.tabIndex = other === k ? 0 : -1));
      buttons[k].focus();
    }

    function mark(k) {
      buttons.forEach((button, other) => {
        button.setAttribute("aria-pressed", String(other === k));
        button.style.zIndex = other === k ? 2 : 1;
        button.tabIndex = other === k ? 0 : -1;
      });
    }

    slider.addEventListener("input", () => show(Number(slider.value), state.layer));
    document.querySelectorAll('input[name="layer"]').forEach((radio) =>
      radio.addEventListener("change", () => show(state.frame, Number(radio.value))),
    );
    byId("stretch").addEventListener("change", () => show(state.frame, state.layer));
    let playing = null;
    byId("play").addEventListener("click", () => {
      const button = byId("play");
      if (playing === null) {
        playing = setInterval(() => {
          slider.value = (state.frame + 1) % map.times.length;
          show(Number(slider.value), state.layer);
        }, 350);
      } else {
        clearInterval(playing);
        playing = null;
      }
      button.textContent = playing === null ? "▶" : "❚❚";
      button.setAttribute("aria-pressed", String(playing !== null));
    });
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      const column = Math.floor(((event.clientX - box.left) / box.width) * map.width);
      const row = Math.floor(((event.clientY - box.top) / box.height) * map.height);
      if (column < 0 || row < 0 || column >= map.width || row >= map.height) return;
      const layer = layers[state.layer];
      const value = layer.values[state.frame * cells + row * map.width + column];
      byId("readout").textContent = "here: " + withUnits(written(value, layer.high - layer.low), layer.units);
    });
    canvas.addEventListener("mouseleave", () => (byId("readout").textContent = ""));
    // What is on the canvas, for tests: numbers of the frame shown, rows from the north.
    window.weft.mapValues = () => {
      const first = state.frame * cells;
      return Array.from(layers[state.layer].values.slice(first, first + cells));
    };
    window.weft.observed = () => Array.from(observed.slice(state.frame * map.markers.length, (state.frame + 1) * map.markers.length), (v) => (Number.isFinite(v) ? v : null));
    const redraw = () => {
      ticks();
      draw();
    };
    return { start: () => (ticks(), show(map.first_frame, 0)), redraw, mark };
  }

  // ---------------------------------------------------------------- series
  let plot = null;
  const holder = byId("series");
  const curves = stations.map(() => null);
  function curvesOf(k) {
    if (curves[k] === null) {
      const station = stations[k];
      const gap = (numbers) => Array.from(numbers, (v) => (Number.isFinite(v) ? v : null));
      curves[k] = ["q05", "q95", "q25", "q75", "mean", "values"].map((name) => gap(unpack(station[name])));
    }
    return curves[k];
  }

  function faded(colour, share) {
    return "color-mix(in srgb, " + colour + " " + 100 * share + "%, transparent)";
  }

  function drawSeries(k) {
    const station = stations[k], data = curvesOf(k), hidden = station.held_out;
    const accent = style("--accent"), ink = style("--ink"), muted = style("--muted"), line = style("--line"), second = style("--second");
    const spread = Math.max(...data[1].filter((v) => v !== null)) - Math.min(...data[0].filter((v) => v !== null));
    const value = (u, v) => written(v, spread);
    const years = 31536000, days = 86400;
    const dates = [
      [years, "{YYYY}", null, null, null, null, null, null, 1],
      [28 * days, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
      [days, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
      [1, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
    ];
    const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif" };
    const label = live.units ? live.target + " (" + live.units + ")" : live.target;
    const edge = (name) => ({ label: name, stroke: "transparent", width: 0, points: { show: false }, value });
    const options = {
      width: seriesWidth(),
      height: 320,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      scales: {
        x: { time: live.series.has_dates },
        y: {
          range: (u, low, high) => {
            // Rows that were hidden count too.
            const inside = hidden.times.map((t, i) => i).filter((i) => t_in(u, hidden.times[i]));
            const all = [low, high, ...inside.map((i) => hidden.values[i])].filter((v) => v !== null && Number.isFinite(v));
            const from = Math.min(...all), to = Math.max(...all), room = 0.06 * (to - from || 1);
            return [from - room, to + room];
          },
        },
      },
      axes: [{ ...axis, values: live.series.has_dates ? dates : undefined, space: 70, label: live.series.time_label || undefined, labelSize: 18 }, { ...axis, label, labelSize: 18, size: 58 }],
      series: [
        live.series.has_dates ? { label: "time", value: live.series.times.every((t) => t % 86400 === 0) ? "{YYYY}-{MM}-{DD}" : "{YYYY}-{MM}-{DD} {HH}:{mm}" } : { label: "time", value: (u, v) => written(v, 1e-3) },
        edge("5 %"),
        edge("95 %"),
        edge("25 %"),
        edge("75 %"),
        { label: "mean", stroke: accent, width: 1.6, points: { show: false }, value },
        { label: "measured", stroke: ink, paths: () => null, points: { show: true, size: 4, fill: ink, width: 0 }, value },
      ],
      bands: [
        { series: [2, 1], fill: faded(accent, 0.22) },
        { series: [4, 3], fill: faded(accent, 0.32) },
      ],
      hooks: {
        draw: [
          (u) => {
            const context = u.ctx, size = 4 * (window.devicePixelRatio || 1);
            context.save();
            context.beginPath();
            context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
            context.clip();
            context.strokeStyle = second;
            context.lineWidth = size / 3;
            hidden.times.forEach((t, i) => {
              const x = u.valToPos(t, "x", true), y = u.valToPos(hidden.values[i], "y", true);
              context.globalAlpha = 0.55;
              context.beginPath();
              context.moveTo(x, u.valToPos(hidden.low[i], "y", true));
              context.lineTo(x, u.valToPos(hidden.high[i], "y", true));
              context.stroke();
              context.globalAlpha = 1;
              context.beginPath();
              context.moveTo(x - size, y);
              context.lineTo(x, y - size);
              context.lineTo(x + size, y);
              context.lineTo(x, y + size);
              context.closePath();
              context.stroke();
            });
            context.restore();
          },
        ],
      },
    };
    if (plot) plot.destroy();
    plot = new uPlot(options, [live.series.times, ...data], holder);
    const values = data[5];
    let seen = 0, inside = 0;
    values.forEach((v, i) => {
      if (v === null) return;
      seen++;
      if (v >= data[0][i] && v <= data[1][i]) inside++;
    });
    const held = hidden.times.length ? " " + hidden.times.length + " hidden rows are marked." : "";
    holder.setAttribute("aria-label", "Series at " + station.name + ": " + seen + " values, " + inside + " of them inside the 90 % band." + held);
    byId("station-where").textContent = station.where + " · " + station.num_rows + " values";
  }
  const t_in = (u, t) => t >= u.scales.x.min && t <= u.scales.x.max;
  const seriesWidth = () => Math.max(260, printing ? 680 : holder.clientWidth);

  function select(k) {
    state.station = stations[k].name;
    byId("station").value = String(k);
    drawSeries(k);
    state.number = k;
    if (map) map.mark(k);
  }
  // What uPlot has drawn, for tests.
  window.weft.series = () => {
    const [times, q05, q95, q25, q75, mean, values] = plot.data;
    return { times: Array.from(times), mean, q05, q25, q75, q95, values };
  };

  // ---------------------------------------------------------------- both
  let printing = false;
  const map = live.map ? makeMap(live.map) : null;
  if (map) map.start();
  if (stations.length) {
    byId("station").addEventListener("change", (event) => select(Number(event.target.value)));
    select(0);
  }
  function redraw() {
    if (map) map.redraw();
    if (plot) drawSeries(state.number);
  }
  let last = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== last) {
      last = window.innerWidth;
      redraw();
    }
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => {
    printing = true;
    document.documentElement.dataset.theme = "light";
    redraw();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    delete document.documentElement.dataset.theme;
    redraw();
  });
})();
