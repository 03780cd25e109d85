// Who rolled a run's samples, where a fleet did.

const workersSection = (run) => {
  const workers = run.workers || [];
  if (workers.length === 0) return null;
  const jobs = workers.reduce((n, w) => n + w.jobs, 0);
  return section(
    "workers",
    "Workers",
    el("p", {}, `${count(jobs, "job")} by ${count(workers.length, "worker")}. Whoever does a job leaves the same bytes.`),
    el(
      "div",
      { class: "scroll", tabIndex: 0 },
      el(
        "table",
        {},
        el(
          "tr",
          {},
          ["worker", "jobs", "share", "seconds a job", "MB", "compared", "last result"].map((h) => el("th", {}, h)),
        ),
        workers.map((w) =>
          el(
            "tr",
            w.dismissed ? { class: "down" } : {},
            el("td", {}, w.worker),
            [
              String(w.jobs),
              `${((100 * w.jobs) / Math.max(1, jobs)).toFixed(0)} %`,
              num(w.median_seconds),
              (w.bytes / 1e6).toFixed(1),
              String(w.audited),
              w.dismissed ? `dismissed: ${w.dismissed}` : w.last,
            ].map((c) => el("td", {}, c)),
          ),
        ),
      ),
    ),
  );
};
