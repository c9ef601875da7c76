// Clicks on thumbnails, on verdicts of cards, and on the charts named in data.charts.
export default function ({ data, parentElement, setTriggerValue }) {
  parentElement.stop?.()
  const click = (event) => {
    const { image, review, pair } = event.target.closest?.("[data-image], [data-review]")?.dataset ?? {}
    if (review) setTriggerValue("click", { kind: "verdict", verdict: review, pair: pair.split(" ").map(Number) })
    else if (image) setTriggerValue("click", { kind: "image", image: Number(image) })
  }
  const charts = new Map()
  const listen = () => {
    for (const key of data.charts) {
      const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`)
      if (!chart || !chart.on || charts.get(key) === chart) continue
      charts.set(key, chart)
      chart.on("plotly_click", (event) => {
        const point = event.points && event.points[0]
        if (!point) return
        const cell = Array.isArray(point.pointIndex) ? point.pointIndex : [point.curveNumber, point.pointNumber]
        setTriggerValue("click", { kind: key, row: cell[0], column: cell[1] })
      })
    }
  }
  listen()
  document.addEventListener("click", click)
  const timer = setInterval(listen, 300)
  parentElement.stop = () => {
    clearInterval(timer)
    document.removeEventListener("click", click)
    for (const chart of charts.values()) chart.removeAllListeners?.("plotly_click")
  }
  return parentElement.stop
}
