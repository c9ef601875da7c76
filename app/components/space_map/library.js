export { default as createScatterplot, createRenderer } from "regl-scatterplot"
