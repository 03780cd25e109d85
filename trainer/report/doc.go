// Package report makes a run's folder a page: curves, what was held out before and after, the best
// and the worst samples, which rules were broken, and what was asked for. Several folders become a
// page that compares them. A page is one file that needs nothing else, and runs no script.
//
//	err := report.Write("runs/quickstart")
//	err = report.WriteCompare("compare.html", []string{"runs/first", "runs/second"})
//
// Start with Write in report.go. run.go reads a folder; curves.go, samples.go and plan.go are what
// a page shows of it; compare.go puts runs beside each other; plot.go draws curves as SVG.
// page.html and compare.html are the templates, style.css is what they look like.
package report
