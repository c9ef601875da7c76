// Links to the app's pages change the page without loading a document, and a click is one step of the browser's history.
// Another theme draws the page again, because the server colours its figures; the field of a slice is completed; a button
// at the start of a page moves the focus to its list.
export default function ({ data, setTriggerValue }) {
  window.coderHistory ??= watch()
  Object.assign(window.coderHistory, data, { draw: (theme) => setTriggerValue("theme", theme) })
}

function watch() {
  const state = { pages: [], retained: [], former: {} }
  const { pushState, replaceState } = history
  let clicked = false
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => (clicked = true), true)

  // The server gives controls their present names in the address of a document; it does not see a step without one
  const renamed = (path) => {
    const address = new URL(path ?? location.href, location.href)
    const names = state.former[address.pathname.slice(1)] ?? {}
    const given = [...address.searchParams]
    if (!given.some(([key]) => key in names)) return path
    address.search = new URLSearchParams(given.map(([key, value]) => [names[key] ?? key, value]))
    return address.href
  }

  // Streamlit also pushes what it corrects in an address: the first push after a click is the step, others change it
  history.pushState = function (entry, title, path) {
    const write = clicked ? pushState : replaceState
    clicked = false
    return write.call(this, entry, title, renamed(path))
  }

  // Links of the sidebar and the tabs open the sample that is open now, even if only a part of the page has run since
  const freshen = (address) => {
    const addresses = document.querySelector(".cl-fresh")?.dataset.addresses
    const fresh = addresses && JSON.parse(addresses)[address.pathname.slice(1)]
    if (fresh) address.search = new URL(fresh, location.href).search
  }

  const follow = (event) => {
    const link = event.target.closest?.("a[href]")
    const modified = event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey
    if (!link || modified || link.hasAttribute("download") || link.target === "_blank") return
    const address = new URL(link.href)
    if (link.closest(".st-key-pages, .cl-tabs")) freshen(address)
    if (address.origin !== location.origin || address.hash || !state.pages.includes(address.pathname)) return
    const here = new URLSearchParams(location.search)
    for (const key of state.retained)
      if (here.has(key) && !address.searchParams.has(key)) address.searchParams.set(key, here.get(key))
    event.preventDefault()
    event.stopPropagation()
    clicked = address.href !== location.href
    history.pushState({}, "", address.href)
    dispatchEvent(new PopStateEvent("popstate")) // for Streamlit a step in history: the address holds the whole state
  }
  document.addEventListener("click", follow, true)
  // Tables are in shadow roots; the opened row, or the first one, takes the focus
  document.addEventListener("click", ({ target }) => {
    if (!target.closest?.(".cl-skip")) return
    const inside = [...document.querySelectorAll("[data-testid=stMain] *")].map((part) => part.shadowRoot ?? part)
    inside.map((part) => part.querySelector("tbody tr[tabindex='0']")).find(Boolean)?.focus()
  })
  document.addEventListener("focusin", ({ target }) => {
    if (target.closest(".st-key-slice")) target.setAttribute("list", "usual-slices")
  })
  let asked
  setInterval(() => {
    const theme = getComputedStyle(document.querySelector("[data-testid=stApp]")).colorScheme
    if (theme !== state.theme && theme !== asked) state.draw((asked = theme))
  }, 300)
  return state
}
