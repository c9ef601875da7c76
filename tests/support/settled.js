// Runs in every document of a Visit: tells when the server has answered and everything is drawn.
({ rerun_script, new_session, script_finished, early_for_rerun }) => {
  const QUIET = 60 // milliseconds without a change, and
  const FRAMES = 3 // as many drawn frames: a busy machine draws slowly
  const state = { asked: true, running: false, changed: 0, frames: 0, waits: false, call: 0 } // a document asks first

  /** The fields of a protobuf message: number → value, 0 where it is no number. */
  const fields = (message) => {
    const bytes = new Uint8Array(message.buffer ?? message, message.byteOffset ?? 0, message.byteLength)
    const values = new Map()
    let at = 0
    const varint = () => {
      let value = 0
      for (let scale = 1; ; scale *= 128) {
        const byte = bytes[at++]
        value += (byte & 127) * scale
        if (!(byte & 128)) return value
      }
    }
    while (at < bytes.length) {
      const tag = varint(), kind = tag & 7, number = kind === 0 || kind === 2 ? varint() : 0
      values.set(tag >> 3, kind === 0 ? number : 0)
      if (kind === 2) at += number
      if (kind === 1 || kind === 5) at += kind === 1 ? 8 : 4
    }
    return values
  }

  const received = (event) => {
    const values = fields(event.data)
    if (values.has(new_session)) Object.assign(state, { asked: false, running: true })
    if (values.has(script_finished) && values.get(script_finished) !== early_for_rerun) state.running = false
  }

  const send = WebSocket.prototype.send
  WebSocket.prototype.send = function (message) {
    if (!this.watched) this.addEventListener("message", received)
    this.watched = true
    if (fields(message).has(rerun_script)) state.asked = true
    return send.call(this, message)
  }
  const changed = () => Object.assign(state, { changed: performance.now(), frames: 0 })
  new MutationObserver(changed).observe(document, {
    subtree: true, childList: true, attributes: true, characterData: true,
  })

  /** Asked again and again, with another `call` for each wait. */
  window.settled = (call) => {
    if (state.call !== call) changed()
    state.call = call
    const moving = document.getAnimations().some(
      (animation) => animation.playState === "running" && animation.effect.getComputedTiming().endTime < Infinity
    )
    const drawn = document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]")
    if (state.asked || state.running || moving || !drawn || document.querySelector("[data-testid=stSkeleton], .cl-map[data-state=drawing]")) changed()
    if (!state.waits) {
      state.waits = true
      requestAnimationFrame(() => Object.assign(state, { waits: false, frames: state.frames + 1 }))
    }
    return state.frames >= FRAMES && performance.now() - state.changed > QUIET
  }
}
