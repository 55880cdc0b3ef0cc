"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
// Without a pointer that hovers there is no way to hide the buttons again, and a finger
// on a figure should scroll the page instead of zooming the figure.
const hasPointer = window.matchMedia("(hover: hover)").matches;
const config = {
  displayModeBar: hasPointer ? "hover" : false,
  modeBarButtons: [["toImage", "resetScale2d"]],
  displaylogo: false,
  responsive: true,
  // The page sends nothing anywhere: no button for it, and no address.
  showSendToCloud: false,
  plotlyServerURL: "",
};
for (const [key, figure] of Object.entries(figures)) {
  if (!hasPointer) figure.layout.dragmode = false;
  Plotly.newPlot(`plot-${key}`, figure.data, figure.layout, config);
}
window.addEventListener("beforeprint", () => {
  for (const plot of document.querySelectorAll(".plot")) Plotly.Plots.resize(plot);
});
