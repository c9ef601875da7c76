// A table. Where its rows open something, a click anywhere in the row, Enter and Space do. Draws text as text only.
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value)
  element.append(...children)
  return element
}

const button = (label, action, attributes = {}) => {
  const element = make("button", { type: "button", ...attributes }, label)
  element.addEventListener("click", action)
  return element
}

// A column's explanation stands below its name, wherever the table ends
const below = (element) => {
  const { left, bottom } = element.getBoundingClientRect()
  element.style.setProperty("--left", `${Math.max(8, Math.min(left, innerWidth - 290))}px`)
  element.style.setProperty("--top", `${bottom}px`)
}

const sampleCell = ({ picture, name, text, small, image }, enlarge) => {
  const cell = make("td", { class: "sample" })
  if (picture) {
    const zoom = button("", enlarge, { class: "zoom", tabindex: "-1", title: text, "aria-label": `Enlarge ${name}` })
    zoom.append(make("img", { src: picture, alt: text || name }))
    cell.append(zoom)
  }
  cell.append(make("div", {}, make("span", { class: "text", title: text }, text), make("small", {}, small)))
  return cell
}

// A row that leads to another page does so as a link of the page would
const follow = (href) => {
  const link = make("a", { href, target: "_self", "data-aim": true })
  document.body.append(link)
  link.click()
  link.remove()
}

const listen = (line, index, body, open) => {
  line.addEventListener("click", () => { if (!getSelection().toString()) open(false) })
  line.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, Home: -index, End: body.children.length - 1 - index }
    if (event.target !== line) return
    if (event.key === "Enter" || event.key === " ") open(false)
    else if (event.key in steps) body.children[index + steps[event.key]]?.focus()
    else return
    event.preventDefault()
  })
  line.addEventListener("focus", () => {
    for (const other of body.children) other.tabIndex = other === line ? 0 : -1
  })
}

export default function ({ data, parentElement, setTriggerValue }) {
  const { columns, rows, opens, addresses, picked, sample, label, sorted, page, pages, range } = data
  const content = JSON.stringify([columns, rows, addresses, sample, sorted, range])
  if (parentElement.content !== content) {
    parentElement.content = content
    const focused = parentElement.querySelector(":focus")?.dataset.focus
    parentElement.querySelector(".frame")?.remove()
    const head = make("tr")
    if (sample) head.append(make("th", { scope: "col" }, sample))
    columns.forEach(({ label, help, number }, index) => {
      const direction = sorted && sorted[0] === index ? sorted[1] : "none"
      const mark = { ascending: " ↑", descending: " ↓", none: "" }[direction]
      const sort = button(label + mark, () => setTriggerValue("sort", index), { "data-help": help || null, "aria-description": help || null, "data-focus": `s${index}` })
      if (help) for (const event of ["mouseenter", "focus"]) sort.addEventListener(event, () => below(sort))
      head.append(make("th", { scope: "col", class: number && "number", "aria-sort": direction }, sort))
    })
    const body = make("tbody")
    rows.forEach((row, index) => {
      const line = make("tr", { "data-row": index })
      const open = (enlarge) =>
        addresses[index] && !enlarge ? follow(addresses[index]) : setTriggerValue("row", { row: index, enlarge })
      if (sample) line.append(sampleCell(row.sample, (event) => { event.stopPropagation(); open(true) }))
      row.cells.forEach((cell, column) => {
        const kind = columns[column].number ? "number" : /[^\s-]{17}/.test(cell) ? null : "whole" // words are short
        const shown = row.bold?.[column] ? make("b", {}, cell) : cell
        const dot = column === 0 && row.colour ? [make("span", { class: "dot", style: `background: ${row.colour}` })] : []
        line.append(make("td", { class: kind, title: kind === "number" ? null : cell }, ...dot, shown))
      })
      if (opens) listen(line, index, body, open)
      body.append(line)
    })
    const table = make("table", { role: opens && "grid", "aria-label": label, class: [!opens && "plain", data.narrow && "narrow"].filter(Boolean).join(" ") || null }, make("thead", {}, head), body)
    const turn = (name, step, possible) =>
      button(name, () => setTriggerValue("page", page + step), { disabled: !possible, "data-focus": name })
    const hint = opens ? "Click a row to open it." : ""
    const foot = make("div", { class: "foot" }, make("span", {}, range), make("small", {}, hint))
    if (pages > 1) foot.append(turn("Previous page", -1, page > 0), turn("Next page", 1, page + 1 < pages))
    const scrolled = make("div", { class: "scrolled", style: data.height && `max-height: ${data.height}px` }, table)
    parentElement.append(make("div", { class: "frame" }, scrolled, ...(opens || pages > 1 ? [foot] : [])))
    if (focused) parentElement.querySelector(`[data-focus="${focused}"]`)?.focus()
  }
  if (!opens) return
  const lines = [...parentElement.querySelectorAll("tbody tr")]
  lines.forEach((line, index) => {
    line.setAttribute("aria-selected", String(index === picked))
    line.tabIndex = index === Math.max(picked, 0) ? 0 : -1
  })
  const scrolled = parentElement.querySelector(".scrolled"), line = lines[picked]
  const head = scrolled.querySelector("thead").offsetHeight
  const hidden = line && (line.offsetTop < scrolled.scrollTop + head ||
    line.offsetTop + line.offsetHeight > scrolled.scrollTop + scrolled.clientHeight)
  if (hidden) scrolled.scrollTop = line.offsetTop - head
}
