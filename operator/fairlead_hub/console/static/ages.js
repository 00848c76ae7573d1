// Ages of moments, by the hub's clock: the page's own may be wrong.
let ahead = -Infinity;

/** The hub's clock was at `seconds` not long ago: the latest it was seen at counts, for a change may be told late. */
export function clockAt(seconds) {
  ahead = Math.max(ahead, seconds - Date.now() / 1000);
}

/** "3 min" of a moment in seconds since 1970; "in 3 min" of one to come. */
export function age(at) {
  const seconds = Math.round(Date.now() / 1000 + ahead - at);
  const size = Math.abs(seconds);
  let text = `${size} s`;
  if (size >= 172800) text = `${Math.floor(size / 86400)} d`;
  else if (size >= 7200) text = `${Math.floor(size / 3600)} h`;
  else if (size >= 120) text = `${Math.floor(size / 60)} min`;
  return seconds < 0 ? `in ${text}` : text;
}

/** Every moment below `root` is shown as its age; the exact time stays in its tooltip. */
export function showAges(root) {
  for (const time of root.querySelectorAll("time[data-at]")) {
    if (!time.title) time.title = time.textContent;
    const text = age(Number(time.dataset.at));
    if (time.textContent !== text) time.textContent = text;
  }
}
