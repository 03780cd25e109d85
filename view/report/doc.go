// Package report makes a page of a run's folder: the outcome, pictures before and after, curves, conversations,
// settings. Several folders become one page with their curves over each other. A page is one file that needs nothing
// else; package watch serves the same page while a folder still grows.
//
//	err := report.Write("runs/quickstart")
//	err = report.WriteCompare("compare.html", []string{"runs/first", "runs/second"})
//
// Start with Document in document.go, the content of a run's page; a Summary is a row of a list of runs. run.go reads
// a folder; gain.go, samples.go, curves.go and transcripts.go make its parts. app.go joins the page's program, whose
// parts are in app/: plain scripts without a build step, and uPlot for curves (app/vendor). It draws elements and text
// nodes alone, so no text of a run can become markup. runtest writes folders for tests, browsertest opens pages in
// Chromium.
//
// Pages of package ablate, and the page of an evaluation (judges.go), run no script: plot.go and gain.go draw them as
// SVG, with style.css.
package report
