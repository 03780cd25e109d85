// Package report makes a run's folder a page: curves, what was held out before and after, which
// rules were broken, and what was asked for. The page is one file that needs nothing else, and
// runs no script.
//
//	err := report.Write("runs/quickstart")
//
// Start with Write in report.go. plot.go draws curves as SVG; page.html is the template.
package report
