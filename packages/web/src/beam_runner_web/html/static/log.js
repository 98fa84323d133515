// The log: follows its end while the reader is there, or has asked for it.
export function followLog() {
  const log = document.getElementById("live_lines");
  const follow = document.getElementById("follow");
  if (!log || !follow) return;
  if (follow.parentElement.hidden) {
    follow.parentElement.hidden = false;
    log.addEventListener("scroll", () => {
      follow.checked = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    });
    follow.addEventListener("change", followLog);
  }
  if (follow.checked) log.scrollTop = log.scrollHeight;
}
