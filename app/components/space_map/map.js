// Up to two aligned maps of a joint space, drawn with WebGL. Positions, colours and sets of points are columns of numbers
// from the app's server; texts are drawn as text only. Above the points lies a canvas with lines, areas, rings and labels.
const RINGED = 60 // so few lit points also get a ring
const HOVERED = 300 // described samples to remember
const INDEXED_AT_ONCE = 65536 // points; more are drawn before a worker has indexed them for hover and click
const LEAF = 64 // points of the index that are searched one by one
const TYPING = 150 // milliseconds after a keystroke
const NEEDED = ["OES_texture_float", "WEBGL_color_buffer_float", "ANGLE_instanced_arrays"]
const SIZES = [[3000, 6, 10], [20000, 4, 6.5], [200000, 2.6, 4.5], [Infinity, 1.7, 2.6]] // up to N points: caption, image

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value)
  element.append(...children)
  return element
}

const icon = (path) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
  svg.setAttribute("viewBox", "0 0 24 24")
  svg.setAttribute("aria-hidden", "true")
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path")
  line.setAttribute("d", path)
  svg.append(line)
  return svg
}

const ICONS = {
  Lasso: "M4 10c0-4 4-6 8-6s8 2 8 6-4 6-8 6c-2 0-3 0-4-1M8 15c0 3-1 5-3 5s-2-3 0-4 3-1 3-1",
  Pan: "M12 3v18M3 12h18M9 6l3-3 3 3M9 18l3 3 3-3M6 9l-3 3 3 3M18 9l3 3-3 3",
  "Zoom in": "M12 5v14M5 12h14",
  "Zoom out": "M5 12h14",
  "Save as PNG": "M12 3v12M7 10l5 5 5-5M4 20h16",
  "Show everything": "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
}

const columns = new Map()
const column = (key, Kind) => {
  if (!columns.has(key)) {
    const bytes = fetch(`map/columns/${key}`).then((answer) => {
      if (!answer.ok) throw new Error(`column ${answer.status}`)
      return answer.arrayBuffer()
    })
    bytes.catch(() => columns.delete(key))
    columns.set(key, bytes)
    while (columns.size > 40) columns.delete(columns.keys().next().value)
  }
  return columns.get(key).then((content) => new Kind(content))
}

// The library's index of many places, in the layout of KDBush 4: the numbers of the points, then their places, as a k-d tree.
// Without places, which are not numbers, it finds nothing
const emptyIndex = (count) => {
  const places = 8 * Math.ceil(1 + count / 2)
  const index = new ArrayBuffer(places + 8 * count)
  new Uint8Array(index).set([0xdb, 0x17])
  new Uint16Array(index, 2, 1)[0] = LEAF
  new Uint32Array(index, 4, 1)[0] = count
  new Float32Array(index, places).fill(NaN)
  return index
}

// Fill an empty index. A worker has no other part of this file
const fillIndex = (x, y, index) => {
  const count = x.length
  const leaf = new Uint16Array(index, 2, 1)[0]
  const points = new Uint32Array(index, 8, count)
  const places = new Float32Array(index, 8 * Math.ceil(1 + count / 2))
  for (let i = 0; i < count; i++) {
    points[i] = i
    places[2 * i] = x[i]
    places[2 * i + 1] = y[i]
  }
  const swap = (i, j) => {
    const point = points[i]
    const right = places[2 * i]
    const up = places[2 * i + 1]
    points[i] = points[j]
    places[2 * i] = places[2 * j]
    places[2 * i + 1] = places[2 * j + 1]
    points[j] = point
    places[2 * j] = right
    places[2 * j + 1] = up
  }
  const parts = [[0, count - 1, 0]]
  while (parts.length) {
    const [first, last, axis] = parts.pop()
    if (last - first <= leaf) continue
    const middle = (first + last) >> 1
    let low = first
    let high = last
    while (low < high) { // Hoare's selection of the middle one
      const pivot = places[2 * ((low + high) >> 1) + axis]
      let i = low
      let j = high
      while (i <= j) {
        while (places[2 * i + axis] < pivot) i++
        while (places[2 * j + axis] > pivot) j--
        if (i <= j) swap(i++, j--)
      }
      if (middle <= j) high = j
      else if (middle >= i) low = i
      else break
    }
    parts.push([first, middle - 1, 1 - axis], [middle + 1, last, 1 - axis])
  }
}

const WORKER = `const fillIndex = ${fillIndex}
onmessage = ({ data: { x, y, index } }) => { fillIndex(x, y, index); postMessage(index, [index]) }`

class Panel {
  constructor(space, number) {
    this.space = space
    this.number = number
    this.points = make("canvas")
    this.marks = make("canvas", { class: "cl-map-marks" })
    this.stage = make("div", { class: "cl-map-stage", tabindex: "0", role: "img" }, this.points, this.marks)
    this.name = make("div", { class: "cl-map-name" })
    this.element = make("div", { class: "cl-map-panel" }, this.stage, this.name)
    this.moved = false
  }

  open({ createScatterplot }, renderer) {
    const { width, height } = this.stage.getBoundingClientRect()
    this.plot = createScatterplot({
      renderer, canvas: this.points, width, height, colorBy: "valueA", opacityBy: "valueA", sizeBy: "valueB",
      cameraDistance: this.wholeDistance(), mouseMode: this.space.mode, lassoMinDist: 3, lassoMinDelay: 8, lassoLineWidth: 2,
      deselectOnDblClick: false, deselectOnEscape: false, pointOutlineWidth: 0, pointSizeSelected: 1,
      opacityInactiveMax: 0.1, syncEvents: true,
    })
    const { plot, space } = this
    plot.subscribe("view", () => space.follow(this))
    plot.subscribe("draw", () => this.mark())
    plot.subscribe("pointOver", (point) => space.describe(this, point))
    plot.subscribe("pointOut", () => space.describe(this, null))
    plot.subscribe("select", ({ points }) => {
      if (this.moved) space.mirror(this, points)
      else space.open(points[points.length - 1])
    })
    plot.subscribe("deselect", () => space.light())
    plot.subscribe("lassoEnd", ({ coordinates }) => {
      if (this.moved && coordinates.length > 2) space.area(this, coordinates)
    })
    this.stage.addEventListener("pointerleave", () => space.describe(this, null))
    this.stage.addEventListener("pointerdown", (event) => {
      space.describe(this, null)
      this.down = [event.clientX, event.clientY]
      this.moved = false
    }, true)
    this.stage.addEventListener("pointermove", (event) => {
      if (event.buttons && Math.hypot(event.clientX - this.down?.[0], event.clientY - this.down?.[1]) > 4) this.moved = true
    }, true)
    this.stage.addEventListener("dblclick", () => space.whole())
    this.stage.addEventListener("keydown", (event) => space.key(this, event))
    this.watcher = new ResizeObserver(() => this.fit())
    this.watcher.observe(this.stage)
  }

  wholeDistance() {
    const { width, height } = this.stage.getBoundingClientRect()
    const [, , half, halfWidth, halfHeight] = this.space.data.bounds
    return 1.05 * Math.max(halfHeight / half, (halfWidth / half) * (height / Math.max(width, 1)))
  }

  fit() {
    const { width, height } = this.stage.getBoundingClientRect()
    if (!width || !height || (width === this.width && height === this.height)) return
    this.width = width
    this.height = height
    this.plot.set({ width, height })
    const scale = devicePixelRatio
    this.marks.width = width * scale
    this.marks.height = height * scale
    this.space.whole()
  }

  // Pixels of a place in the map's normalised coordinates
  onScreen(x, y) {
    const view = this.plot.get("cameraView")
    const right = (view[0] * x + view[4] * y + view[12]) * (this.height / this.width)
    const up = view[1] * x + view[5] * y + view[13]
    return [(right + 1) / 2 * this.width, (1 - up) / 2 * this.height]
  }

  place(point) {
    return this.onScreen(this.x[point], this.y[point])
  }

  mark() {
    const { data, lit, arrows, other } = this.space
    if (!this.x || !this.width) return
    const pen = this.marks.getContext("2d")
    const scale = devicePixelRatio
    pen.setTransform(scale, 0, 0, scale, 0, 0)
    pen.clearRect(0, 0, this.width, this.height)
    const stroke = (colour, width, alpha = 1) => Object.assign(pen, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha })
    const line = (from, to) => { pen.moveTo(...from); pen.lineTo(...to) }
    if (arrows && other) this.drawArrows(pen)
    stroke(data.faint, 1, 0.6)
    pen.beginPath()
    for (const [a, b] of data.lines) line(this.place(a), this.place(b))
    pen.stroke()
    if (data.focus !== null) {
      stroke(data.ink, 1.2, 0.8)
      pen.beginPath()
      for (const near of data.near) line(this.place(data.focus), this.place(near))
      pen.stroke()
    }
    stroke(data.ink, 1.2)
    pen.setLineDash([3, 3])
    for (const { map, corners } of data.areas) {
      if (map !== this.number) continue
      pen.beginPath()
      for (const [x, y] of corners) pen.lineTo(...this.onScreen(...this.space.normal(x, y)))
      pen.closePath()
      pen.stroke()
    }
    pen.setLineDash([])
    const ring = (point, radius, width) => {
      const [x, y] = this.place(point)
      stroke(data.ink, width)
      pen.beginPath()
      pen.arc(x, y, radius, 0, 2 * Math.PI)
      pen.stroke()
    }
    if (lit && lit.length <= RINGED) for (const point of lit) ring(point, 6, 1.6)
    if (data.focus !== null) ring(data.focus, 10, 2.5)
    for (const near of data.focus === null ? [] : data.near) ring(near, 6, 1.6)
    this.drawLabels(pen)
    pen.globalAlpha = 1
  }

  // An arrow per sample from its place in the first run to that in the last; colours and order come with the column
  drawArrows(pen) {
    const { arrows, other, data } = this.space
    const palette = data.arrows.palette
    const paths = palette.map(() => new Path2D())
    for (let i = 0; i < arrows.length; i += 2) {
      const path = paths[arrows[i + 1]], point = arrows[i]
      const [x0, y0] = this.onScreen(other.x[point], other.y[point])
      const [x1, y1] = this.place(point)
      const length = Math.hypot(x1 - x0, y1 - y0)
      if (length < 2) continue
      path.moveTo(x0, y0)
      path.lineTo(x1, y1)
      const head = Math.min(6, length / 2), angle = Math.atan2(y1 - y0, x1 - x0)
      for (const side of [2.7, -2.7]) {
        path.moveTo(x1, y1)
        path.lineTo(x1 + head * Math.cos(angle + side), y1 + head * Math.sin(angle + side))
      }
    }
    pen.lineWidth = 1.1
    paths.forEach((path, code) => {
      pen.globalAlpha = 0.7
      pen.strokeStyle = palette[code]
      pen.stroke(path)
    })
  }

  drawLabels(pen) {
    const { data } = this.space
    pen.font = "600 12px 'Source Sans', sans-serif"
    pen.textAlign = "center"
    pen.textBaseline = "middle"
    pen.lineJoin = "round"
    pen.globalAlpha = 1
    const taken = []
    for (const { text, x, y } of data.labels[this.number] ?? []) {
      const [left, top] = this.onScreen(...this.space.normal(x, y))
      const half = pen.measureText(text).width / 2
      const centre = Math.min(Math.max(left, half + 4), this.width - half - 4)
      const inside = left > 0 && left < this.width && top > 8 && top < this.height - 8
      if (!inside || taken.some(([x, y, wide]) => Math.abs(x - centre) < wide + half + 6 && Math.abs(y - top) < 16)) continue
      taken.push([centre, top, half])
      pen.strokeStyle = data.paper
      pen.lineWidth = 4
      pen.strokeText(text, centre, top)
      pen.fillStyle = data.ink
      pen.fillText(text, centre, top)
    }
  }

  // Return an index that a worker fills
  indexLater() {
    const { x, y, stage } = this
    const index = emptyIndex(x.length)
    const script = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }))
    this.worker?.terminate()
    this.worker = new Worker(script)
    URL.revokeObjectURL(script)
    stage.dataset.index = "filling"
    this.worker.onmessage = ({ data }) => {
      new Uint8Array(index).set(new Uint8Array(data))
      stage.dataset.index = "filled"
      this.worker.terminate()
    }
    this.worker.onerror = () => {
      fillIndex(x, y, index)
      stage.dataset.index = "filled"
    }
    this.worker.postMessage({ x, y, index })
    return index
  }

  close() {
    this.worker?.terminate()
    this.watcher?.disconnect()
    this.plot?.destroy()
  }
}

class Space {
  constructor() {
    this.mode = "lasso"
    this.panels = []
    this.hidden = new Set()
    this.described = new Map()
    this.queue = Promise.resolve()
    this.tip = make("div", { class: "cl-map-tip", role: "status", hidden: true })
    this.field = make("input", { type: "search", maxlength: "200", placeholder: "Find: words, image 12, a file", "aria-label": "Find on the map" })
    this.found = make("span", { class: "cl-map-found", role: "status" })
    this.buttons = {}
    const button = (name, action) => {
      this.buttons[name] = make("button", { type: "button", title: name, "aria-label": name }, icon(ICONS[name]))
      this.buttons[name].addEventListener("click", action)
      return this.buttons[name]
    }
    const modes = [button("Lasso", () => this.use("lasso")), button("Pan", () => this.use("panZoom"))]
    const zooms = [button("Zoom in", () => this.zoom(1 / 1.5)), button("Zoom out", () => this.zoom(1.5)), button("Show everything", () => this.whole()), button("Save as PNG", () => this.save())]
    this.clear = make("button", { type: "button", class: "cl-map-clear" }, "Clear selection")
    this.clear.addEventListener("click", () => this.act({ kind: "clear" }))
    const group = (label, ...children) => make("div", { class: "cl-map-group", role: "group", "aria-label": label }, ...children)
    this.tools = make("div", { class: "cl-map-tools" }, group("Mouse", ...modes), group("View", ...zooms), this.field, this.found, this.clear)
    this.row = make("div", { class: "cl-map-row" })
    this.legend = make("div", { class: "cl-map-legend", role: "group", "aria-label": "Colours" })
    this.root = make("div", { class: "cl-map" }, this.tools, this.row, this.legend, this.tip)
    this.field.addEventListener("input", () => {
      clearTimeout(this.typing)
      this.typing = setTimeout(() => this.preview(), TYPING)
    })
    this.field.addEventListener("change", () => {
      clearTimeout(this.typing)
      if (this.field.value.trim() !== this.data.query) this.act({ kind: "find", text: this.field.value.trim() })
    })
  }

  // Messages are shown in the order in which they came
  update(data, act) {
    this.act = act
    this.root.dataset.state = "drawing"
    this.queue = this.queue.then(() => this.show(data)).catch((error) => {
      this.root.dataset.state = "failed"
      if (String(error).includes("column 404")) act({ kind: "again" })
      else console.error(error)
    })
  }

  async show(data) {
    const before = this.data
    this.data = data
    this.root.setAttribute("style", `--map-height: ${data.height}px`)
    if (document.activeElement !== this.field) this.field.value = data.query
    this.clear.hidden = !data.areas.length && !data.clicked && data.focus === null
    const arriving = Promise.all(data.maps.flatMap(({ plane, codes }) => [column(plane, Float32Array), column(codes, Uint8Array)]))
    arriving.catch(() => {}) // awaited below; meanwhile the library is loaded
    this.library ??= await import(new URL("map/library.js", document.baseURI).href)
    this.renderer ??= this.rendered()
    if (!this.renderer) return
    if (this.panels.length !== data.maps.length) this.build(data)
    const arrived = await arriving
    const planes = arrived.filter((_, number) => number % 2 === 0)
    const codes = arrived.filter((_, number) => number % 2 === 1)
    const moved = !before || data.maps.some(({ plane }, number) => plane !== before.maps[number]?.plane)
    const coloured = moved || data.maps.some(({ codes }, number) => codes !== before.maps[number]?.codes)
    const dressed = JSON.stringify([data.palette, data.paper, data.legend]) !== JSON.stringify(before && [before.palette, before.paper, before.legend])
    if (dressed) this.hidden.clear()
    for (const panel of this.panels) {
      panel.name.textContent = data.maps[panel.number].name
      panel.stage.setAttribute("aria-label", data.alt[panel.number])
      if (moved) this.normalise(panel, planes[panel.number])
    }
    if (dressed || coloured) this.paint()
    if (coloured) await Promise.all(this.panels.map((panel) => this.draw(panel, codes[panel.number], !moved)))
    const sets = [data.lit, data.base, data.arrows?.column]
    const [lit, base, arrows] = await Promise.all(sets.map((key) => key ? column(key, Uint32Array) : null))
    Object.assign(this, { lit, base, arrows, other: this.panels.length > 1 ? this.panels[0] : null })
    this.drawLegend()
    this.light()
    this.found.textContent = data.note
    if (moved) this.whole()
    this.root.dataset.state = "drawn"
  }

  // Return the library's renderer, or null and report why this browser has none
  rendered() {
    let reason = "this browser has no WebGL"
    try {
      const renderer = this.library.createRenderer()
      const missing = NEEDED.filter((name) => !renderer.regl._gl.getExtension(name))
      if (!missing.length) return renderer
      reason = `WebGL lacks ${missing.join(", ")}`
      renderer.destroy()
    } catch (error) {
      console.info(error)
    }
    this.act({ kind: "unavailable", reason })
    return null
  }

  build(data) {
    for (const panel of this.panels) panel.close()
    this.panels = data.maps.map((_, number) => new Panel(this, number))
    this.row.replaceChildren(...this.panels.map(({ element }) => element))
    for (const panel of this.panels) panel.open(this.library, this.renderer)
    for (const panel of this.panels) panel.fit()
    this.use(this.mode)
  }

  // Both maps have one scale, so that a place is the same in both
  normal(x, y) {
    const [centreX, centreY, half] = this.data.bounds
    return [(x - centreX) / half, (y - centreY) / half]
  }

  normalise(panel, plane) {
    const [centreX, centreY, half] = this.data.bounds
    const count = plane.length / 2
    panel.x = new Float32Array(count)
    panel.y = new Float32Array(count)
    for (let i = 0; i < count; i++) {
      panel.x[i] = (plane[2 * i] - centreX) / half
      panel.y[i] = (plane[2 * i + 1] - centreY) / half
    }
  }

  paint() {
    const { palette, paper, ink, count } = this.data
    const [, caption, image] = SIZES.find(([most]) => count <= most)
    const opacity = palette.map((_, code) => this.hidden.has(code) ? 0 : count > 50000 ? 0.6 : 0.85)
    for (const { plot } of this.panels)
      plot.set({ backgroundColor: paper, lassoColor: ink, pointColor: palette, pointColorActive: palette, pointColorHover: palette.map(() => ink), pointSize: [caption, image], opacity })
  }

  draw(panel, codes, sameplaces) {
    const { images } = this.data
    panel.codes = codes
    const count = codes.length
    const size = new Uint8Array(count)
    size.fill(1, 0, images)
    const options = { zDataType: "categorical", wDataType: "categorical", preventFilterReset: true }
    if (sameplaces) options.spatialIndex = panel.plot.get("spatialIndex")
    else if (count > INDEXED_AT_ONCE) options.spatialIndex = panel.indexLater()
    return panel.plot.draw({ x: panel.x, y: panel.y, z: codes, w: size }, options)
  }

  light(points = this.lit) {
    for (const { plot } of this.panels)
      if (points?.length) plot.select(Array.from(points), { preventEvent: true })
      else plot.deselect({ preventEvent: true })
    for (const panel of this.panels) panel.mark()
  }

  mirror(from, points) {
    for (const { plot } of this.panels) if (plot !== from.plot) plot.select(points, { preventEvent: true })
  }

  area(panel, coordinates) {
    const [centreX, centreY, half] = this.data.bounds
    const corners = coordinates.map(([x, y]) => [x * half + centreX, y * half + centreY])
    this.act({ kind: "area", map: panel.number, corners })
  }

  open(point) {
    this.light()
    this.act({ kind: "open", point })
  }

  // Show the same part in all panels. A panel that is told to reports a new view as well, so equal views are left alone
  follow(panel) {
    const view = panel.plot.get("cameraView")
    for (const { plot } of this.panels)
      if (plot.get("cameraView").some((value, i) => value !== view[i])) plot.set({ cameraView: new Float32Array(view) })
    for (const each of this.panels) each.mark()
  }

  whole() {
    const distance = Math.max(...this.panels.map((panel) => panel.wholeDistance()))
    for (const { plot } of this.panels) plot.set({ cameraTarget: [0, 0], cameraDistance: distance })
    for (const panel of this.panels) panel.mark()
  }

  zoom(factor) {
    const [first] = this.panels
    first.plot.set({ cameraDistance: first.plot.get("cameraDistance") * factor })
    this.follow(first)
  }

  key(panel, event) {
    const step = 0.2 * panel.plot.get("cameraDistance")
    const steps = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] }
    if (event.key in steps) {
      const [x, y] = panel.plot.get("cameraTarget")
      panel.plot.set({ cameraTarget: [x + steps[event.key][0], y + steps[event.key][1]] })
      this.follow(panel)
    } else if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 1 / 1.5 : 1.5)
    else if (event.key === "Escape") this.act({ kind: "clear" })
    else return
    event.preventDefault()
  }

  // One picture of all maps as they are seen, on the page's background
  save() {
    const canvas = make("canvas")
    const parts = this.panels.map(({ points, marks, name }) => [points, marks, name.textContent])
    const [[{ width, height }]] = parts
    const title = 28 * devicePixelRatio
    canvas.width = width * parts.length
    canvas.height = height + title
    const pen = canvas.getContext("2d")
    pen.fillStyle = this.data.paper
    pen.fillRect(0, 0, canvas.width, canvas.height)
    pen.fillStyle = this.data.ink
    pen.font = `600 ${14 * devicePixelRatio}px 'Source Sans', sans-serif`
    parts.forEach(([points, marks, name], number) => {
      pen.fillText(name, number * width + title / 3, 0.7 * title)
      for (const layer of [points, marks]) pen.drawImage(layer, number * width, title, width, height)
    })
    make("a", { href: canvas.toDataURL("image/png"), download: "joint-space.png" }).click()
  }

  use(mode) {
    this.mode = mode
    this.buttons.Lasso.setAttribute("aria-pressed", String(mode === "lasso"))
    this.buttons.Pan.setAttribute("aria-pressed", String(mode !== "lasso"))
    for (const { plot, stage } of this.panels) {
      plot.set({ mouseMode: mode })
      stage.dataset.mode = mode
    }
  }

  // Points light up while a word is typed; the page follows when it is finished
  async preview() {
    const query = this.field.value.trim()
    const { run, split, first, count } = this.data
    if (!query) return this.light(this.base)
    const answer = await fetch(`map/find?${new URLSearchParams({ run, split, query })}`)
    if (!answer.ok || query !== this.field.value.trim()) return
    let points = Array.from(new Uint32Array(await answer.arrayBuffer()), (point) => point - first)
    points = points.filter((point) => point >= 0 && point < count)
    if (this.base) {
      const base = new Set(this.base)
      points = points.filter((point) => base.has(point))
    }
    this.found.textContent = points.length === 1 ? "1 match" : `${points.length.toLocaleString("en")} matches`
    this.light(points)
  }

  name(point) {
    const { first, imagesOfSplit } = this.data
    const number = point + first
    return number < imagesOfSplit ? `image-${number}` : `caption-${number - imagesOfSplit}`
  }

  async describe(panel, point) {
    this.hovered = point
    this.tip.hidden = true
    if (point === null || this.hidden.has(panel.codes?.[point])) return
    const { run, split } = this.data
    const name = this.name(point)
    await new Promise((resolve) => setTimeout(resolve, 60))
    if (this.hovered !== point) return
    if (!this.described.has(name)) {
      const answer = await fetch(`map/sample?${new URLSearchParams({ run, split, sample: name })}`)
      if (!answer.ok) return
      this.described.set(name, await answer.json())
      if (this.described.size > HOVERED) this.described.delete(this.described.keys().next().value)
    }
    if (this.hovered !== point) return
    const { ids, text, picture } = this.described.get(name)
    const parts = [make("b", {}, ids), make("div", {}, text)]
    if (picture) parts.unshift(make("img", { src: picture, alt: "" }))
    this.tip.replaceChildren(...parts)
    const [x, y] = panel.place(point)
    const stage = panel.stage.getBoundingClientRect()
    const root = this.root.getBoundingClientRect()
    const left = stage.left - root.left + x
    const top = stage.top - root.top + y
    this.tip.hidden = false
    const below = y < stage.height / 2
    this.tip.style.left = `${Math.max(4, Math.min(left + 14, root.width - 250))}px`
    this.tip.style.top = `${below ? top + 14 : top - 14 - this.tip.offsetHeight}px`
  }

  drawLegend() {
    const { legend, palette, mixed } = this.data
    const parts = []
    if (legend.names) {
      legend.names.forEach((name, code) => {
        const dot = make("span", { class: "cl-map-dot", style: `background: ${palette[code]}` })
        const chip = make("button", { type: "button", "aria-pressed": String(!this.hidden.has(code)), title: `Hide or show ${name}` }, dot, name)
        chip.addEventListener("click", () => {
          if (!this.hidden.delete(code)) this.hidden.add(code)
          chip.setAttribute("aria-pressed", String(!this.hidden.has(code)))
          this.paint()
        })
        parts.push(chip)
      })
    } else {
      const bar = make("span", { class: "cl-map-ramp", style: `background: linear-gradient(90deg, ${legend.stops.join(", ")})` })
      const ticks = make("span", { class: "cl-map-ticks" })
      legend.ticks.forEach(([share, label]) => ticks.append(make("span", { style: `left: ${100 * share}%` }, label)))
      parts.push(make("span", {}, legend.title), make("span", { class: "cl-map-scale" }, bar, ticks))
    }
    if (this.arrows) {
      const stops = this.data.arrows.palette.slice(0, -1).filter((_, step) => step % 16 === 0)
      const bar = make("span", { class: "cl-map-ramp cl-map-short", style: `background: linear-gradient(90deg, ${stops.join(", ")})` })
      parts.push(make("span", { class: "cl-map-arrows" }, "arrows: rank lost", bar, "gained"))
    }
    if (mixed) parts.push(make("small", {}, "Larger dots are images, smaller ones captions."))
    this.legend.replaceChildren(...parts)
  }

  close() {
    for (const panel of this.panels) panel.close()
    this.renderer?.destroy?.()
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const act = (value) => setTriggerValue("act", value)
  if (!parentElement.space) {
    parentElement.space = new Space()
    parentElement.append(parentElement.space.root)
  }
  const { space } = parentElement
  space.update(data, act)
  return () => setTimeout(() => {
    if (space.root.isConnected) return
    space.close()
    delete parentElement.space
  })
}
