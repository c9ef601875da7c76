// Writes the licences of all bundled packages beside the bundle.
import { readFileSync, readdirSync, writeFileSync } from "node:fs"

const lock = JSON.parse(readFileSync("package-lock.json", "utf8"))
const bundled = Object.entries(lock.packages).filter(([path, { dev }]) => path && !dev)
const texts = bundled.map(([path, { version }]) => {
  const file = readdirSync(path).find((name) => /^licen[cs]e/i.test(name))
  return `${path.replace(/^.*node_modules\//, "")} ${version}\n\n${readFileSync(`${path}/${file}`, "utf8").trim()}\n`
})
writeFileSync("bundle/LICENSES.txt", texts.join(`\n${"-".repeat(80)}\n\n`))
