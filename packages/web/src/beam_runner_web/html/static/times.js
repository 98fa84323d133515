// Adds the reader's local time to the title of each time, whose text is in UTC or relative.
export function showLocalTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) time.title = `${at.toLocaleString()} (${at.toISOString().slice(0, 19)} UTC)`;
  }
}
