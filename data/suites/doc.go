// Package suites reads published collections of questions about pictures from the user's own files, and scores answers
// by their published rules: V*, HR-Bench, MME-RealWorld, MathVista and ChartQA.
//
//	set, err := suites.Open("vstar", "test_questions.jsonl")
//	q := set.Questions[0]                     // a prompt, pictures, an answer
//	right := set.Right(q, "The answer is B")  // by the suite's rule, without a model that judges
//	r := set.Result(answers)                  // accuracy with its interval, and its dependencies
//
// Start with suite.go, the table of suites. read.go reads rows of JSON, JSON lines, tab-separated values and Parquet;
// formats.go makes questions of them; rules.go judges; result.go has the published result.
package suites
