// For each point asked for: what the library's index finds in a small square around it, and what is there
(asked) => {
  const { plot, x, y } = document.querySelector('.cl-map').parentElement.space.panels[0]
  const index = plot.get("spatialIndex")
  const count = x.length
  const points = new Uint32Array(index, 8, count)
  const places = new Float32Array(index, 8 * Math.ceil(1 + count / 2))
  const within = (right, up, [lowX, lowY, highX, highY]) => right >= lowX && right <= highX && up >= lowY && up <= highY
  const range = (lowX, lowY, highX, highY) => {
    const found = []
    const parts = [[0, count - 1, 0]]
    while (parts.length) {
      const [first, last, axis] = parts.pop()
      const inside = (i) => within(places[2 * i], places[2 * i + 1], [lowX, lowY, highX, highY])
      if (last - first <= 64) {
        for (let i = first; i <= last; i++) if (inside(i)) found.push(points[i])
        continue
      }
      const middle = (first + last) >> 1
      if (inside(middle)) found.push(points[middle])
      if ((axis ? lowY : lowX) <= places[2 * middle + axis]) parts.push([first, middle - 1, 1 - axis])
      if ((axis ? highY : highX) >= places[2 * middle + axis]) parts.push([middle + 1, last, 1 - axis])
    }
    return found.sort((a, b) => a - b)
  }
  const near = (point) => [x[point] - 0.01, y[point] - 0.01, x[point] + 0.01, y[point] + 0.01]
  const every = (square) => [...x.keys()].filter((i) => within(x[i], y[i], square))
  return asked.map((point) => [range(...near(point)), every(near(point))])
}
