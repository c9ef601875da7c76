// Copies the address of the page, which holds the whole view, and says so for two seconds.
const SHOWN = 2000

const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text)
    return
  } catch {} // no permission, or a page without a secure connection
  const field = document.createElement("textarea")
  field.value = text
  document.body.append(field)
  field.select()
  document.execCommand("copy")
  field.remove()
}

export default function ({ parentElement }) {
  const button = parentElement.querySelector("button")
  const label = button.querySelector("span")
  let timer = 0
  button.onclick = async () => {
    await copy(location.href)
    label.textContent = "Link copied"
    clearTimeout(timer)
    timer = setTimeout(() => { label.textContent = "Copy link" }, SHOWN)
  }
  return () => clearTimeout(timer)
}
