// Runs before the first paint, so that the page does not flash in the other theme.
try {
  const theme = localStorage.getItem("jobforge.theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch (_) {}
