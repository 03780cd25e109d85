// Package report makes a run's folder a page: what it came to, pictures before and after, curves, conversations, what
// was asked for. Several folders become one page with their curves over each other. A page is one file that needs
// nothing else; package watch serves the same page over folders that still grow.
//
//	err := report.Write("runs/quickstart")
//	err = report.WriteCompare("compare.html", []string{"runs/first", "runs/second"})
//
// Start with Document in document.go: it is all that a page shows of a run, and summary.go what a list of runs shows.
// run.go reads a folder; gain.go, evaluations.go, samples.go, curves.go, transcripts.go and plan.go say what is in it.
// app.go joins the page's program, whose parts are in app/: plain scripts without a build step, and uPlot for curves
// (app/vendor). It draws elements and text nodes alone, so no text of a run can become markup. runtest writes folders
// for tests, browsertest opens pages in Chromium.
//
// Pages of package ablate, and the page of what eval found (judges.go), run no script: plot.go and forest.go draw them
// as SVG, style.css is what they look like.
package report
