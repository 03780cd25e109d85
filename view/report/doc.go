// Package report makes a page of a run's folder: the outcome, pictures before and after, curves, conversations,
// settings. Several folders become one page with their curves over each other. A page is one file that needs nothing
// else; package watch serves the same page while a folder still grows.
//
//	err := report.Write("runs/quickstart")
//	err = report.WriteCompare("compare.html", []string{"runs/first", "runs/second"})
//
// Start with Document in document.go, which is everything that a page shows of a run; summary.go is a row of a list of
// runs. run.go reads a folder; gain.go, evaluations.go, samples.go, curves.go, transcripts.go and plan.go say what is
// in it. app.go joins the page's program, whose parts are in app/: plain scripts without a build step, and uPlot for
// curves (app/vendor). It draws elements and text nodes alone, so no text of a run can become markup. runtest writes
// folders for tests, browsertest opens pages in Chromium.
//
// Pages of package ablate, and the page of what eval found (judges.go), run no script: plot.go and forest.go draw them
// as SVG, style.css is what they look like.
package report
