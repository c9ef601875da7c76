// Clicks on thumbnails, on texts of samples, on verdicts of cards, and on the charts named in data.charts. After a link
// of the panel, the part of the page that is about the sample comes into view.
const AIM = ".st-key-detail, .st-key-joint-map, .st-key-pair-panel"
const idle = () => document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]")

const bringIntoView = () => {
  let began = false, rests = 0
  const stop = () => clearInterval(timer)
  const timer = setInterval(() => {
    began ||= !idle()
    if (!began || !idle()) return
    document.querySelector(AIM)?.scrollIntoView({ block: "start" })
    if (++rests === 12) stop() // figures are drawn meanwhile
  }, 100)
  setTimeout(stop, 20000)
  for (const kind of ["wheel", "pointerdown", "keydown"]) addEventListener(kind, stop, { once: true })
}

export default function ({ data, parentElement, setTriggerValue }) {
  parentElement.stop?.()
  const click = (event) => {
    const { image, review, pair, open } = event.target.closest?.("[data-image], [data-review], [data-open]")?.dataset ?? {}
    if (review) setTriggerValue("click", { kind: "verdict", verdict: review, pair: pair.split(" ").map(Number) })
    else if (open) setTriggerValue("click", { kind: "open", sample: open })
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
  const aim = (event) => event.target.closest?.(".st-key-opened a, a[data-aim]") && !event.ctrlKey && !event.metaKey && bringIntoView()
  document.addEventListener("click", aim, true)
  document.addEventListener("click", click)
  const timer = setInterval(listen, 300)
  parentElement.stop = () => {
    clearInterval(timer)
    document.removeEventListener("click", aim, true)
    document.removeEventListener("click", click)
    for (const chart of charts.values()) chart.removeAllListeners?.("plotly_click")
  }
  return parentElement.stop
}
