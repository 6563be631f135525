"use strict";
const fold = document.getElementById("fold");
const all = () => document.querySelectorAll("main details:not(.shot)");
fold.hidden = false;
fold.addEventListener("click", () => {
  const open = fold.textContent === "unfold all";
  for (const one of all()) one.open = open;
  fold.textContent = open ? "fold all" : "unfold all";
});
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) target.open = true;
};
addEventListener("hashchange", unfold);
unfold();
addEventListener("keydown", (event) => {
  const way = { j: 1, k: -1 }[event.key];
  if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
  const steps = [...document.querySelectorAll(".step")];
  const top = document.querySelector(".bar").offsetHeight + 12;
  const tops = steps.map((step) => step.getBoundingClientRect().top - top);
  const index = way > 0 ? tops.findIndex((y) => y > 1) : tops.findLastIndex((y) => y < -1);
  if (index >= 0) scrollBy({ top: tops[index] });
});
