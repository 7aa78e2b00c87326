// Before the first paint, so that nobody who chose a theme sees the other one flash.
try {
  const theme = localStorage.getItem("jobforge.theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch (_) {}
