// A page on a server: runs come by server-sent events, a run's document when it is looked at.

const live = (changed) => {
  const runs = new Map(),
    lost = el(
      "p",
      { class: "lost", role: "status", hidden: true },
      "The connection to darkroom watch is lost; what is shown is as it was. It is tried again.",
    );
  document.body.prepend(lost);
  const events = new EventSource("events");
  events.addEventListener("runs", (event) => {
    const update = JSON.parse(event.data);
    for (const r of update.runs || []) runs.set(r.id, r);
    for (const id of update.gone || []) runs.delete(id);
    changed(
      [...runs.values()],
      (update.runs || []).map((r) => r.id),
    );
  });
  events.addEventListener("open", () => {
    lost.hidden = true;
  });
  events.addEventListener("error", () => {
    lost.hidden = false;
  });
  return {
    async document(id) {
      const answer = await fetch(`api/runs/${id}`);
      if (!answer.ok) throw new Error(await answer.text());
      return answer.json();
    },
  };
};
