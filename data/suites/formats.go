package suites

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Card: rows of published files, and the prompts that lmms-eval makes of them.
//
//	vstar         craigwu/vstar_bench, test_questions.jsonl {image, text, category, label, question_id}, pictures
//	              beside; lmms-lab's Parquet with the same columns
//	hrbench       DreamMr/HR-Bench, hr_bench_4k.tsv or .parquet: index, question, answer, category, cycle_category, A to
//	              D, image (base64)
//	mmerealworld  yifanzhang114/MME-RealWorld, .json {Question_id, Image, Text, Answer choices, Ground truth, Category};
//	              lmms-eval's Parquet {index, bytes, question, multi-choice options, answer, category, l2-category}
//	mathvista     AI4Math/MathVista, testmini.json by pid, or .parquet: question, image or decoded_image, choices, unit,
//	              precision, answer, question_type, answer_type, query
//	chartqa       ChartQA, test_human.json and test_augmented.json {imgname, query, label}, pictures in png/; lmms-lab's
//	              Parquet {type, question, answer, image}

var options = regexp.MustCompile(`\([A-D]\)\s*([^()]+)`)

func vstar(r row, n string) (q Question, err error) {
	text, err := r.need("text", "question")
	if err != nil {
		return q, err
	}
	q = Question{ID: or(r.text("question_id"), n), Answer: strings.ToUpper(strings.TrimSpace(r.text("label", "answer"))), Category: r.text("category")}
	q.picture, err = r.image("", "image")
	before, _, many := strings.Cut(text, "(A)")
	if many {
		lines := []string{strings.TrimSpace(before)}
		for i, m := range options.FindAllStringSubmatch(text, 4) {
			choice, _, _ := strings.Cut(m[1], "\nAnswer with the option")
			choice = strings.TrimSpace(choice)
			q.Choices = append(q.Choices, choice)
			lines = append(lines, fmt.Sprintf("%c. %s", 'A'+i, choice))
		}
		text = strings.Join(lines, "\n")
	}
	q.Prompt = text + "\nAnswer with the option's letter from the given choices directly."
	return q, err
}

func hrbench(r row, n string) (q Question, err error) {
	text, err := r.need("question")
	if err != nil {
		return q, err
	}
	q = Question{ID: or(r.text("index"), n), Answer: strings.ToUpper(strings.TrimSpace(r.text("answer"))), Category: r.text("category")}
	if q.picture, err = r.image("", "image"); err != nil {
		return q, err
	}
	lines := []string{strings.TrimSpace(text)}
	for letter := 'A'; letter <= 'Z'; letter++ {
		if choice := r.text(string(letter)); choice != "" {
			q.Choices = append(q.Choices, choice)
			lines = append(lines, fmt.Sprintf("%c. %s", letter, choice))
		}
	}
	q.Prompt = strings.Join(lines, "\n") + "\nAnswer the option letter directly."
	return q, nil
}

func mmeRealWorld(r row, n string) (q Question, err error) {
	text, err := r.need("Text", "question")
	if err != nil {
		return q, err
	}
	q = Question{ID: or(r.text("Question_id", "index"), n), Answer: strings.TrimSpace(r.text("Ground truth", "answer")), Category: r.text("Category", "category")}
	if task := r.text("Task"); task != "" {
		q.Category = task + "/" + q.Category
	}
	q.Choices = r.list("Answer choices", "multi-choice options")
	if len(q.Choices) > 0 && !strings.HasPrefix(q.Choices[0], "(") { // VLMEvalKit's sentence before them
		q.Choices = q.Choices[1:]
	}
	q.picture, err = r.image("", "bytes", "image", "Image")
	q.Prompt = text + " The choices are listed below:\n" + strings.Join(q.Choices, "\n") +
		"\nSelect the best answer to the above multiple-choice question based on the image. Respond with only the letter (A, B, C, D, or E) of the correct option.\nThe best answer is: "
	return q, err
}

// mathVista's prompt is the published query: a hint about the answer's form, the question, its choices.
func mathVista(r row, n string) (q Question, err error) {
	text, err := r.need("query", "question")
	if err != nil {
		return q, err
	}
	q = Question{ID: or(r.text("pid"), n), Prompt: text, Answer: strings.TrimSpace(r.text("answer")), Choices: r.list("choices"), Kind: r.text("answer_type"), Category: r.text("question_type")}
	if p := r.text("precision"); p != "" {
		x, err := strconv.ParseFloat(p, 64)
		if err != nil || x < 0 || x > 20 {
			return q, fmt.Errorf("a precision of %s", p)
		}
		q.Digits = int(x)
	}
	q.picture, err = r.image("", "decoded_image", "image")
	return q, err
}

func chartQA(r row, n string) (q Question, err error) {
	text, err := r.need("query", "question")
	if err != nil {
		return q, err
	}
	answer := r.text("label", "answer")
	if all := r.list("label", "answer"); len(all) > 0 {
		answer = all[0]
	}
	q = Question{ID: or(r.text("index"), n), Prompt: text + "\nAnswer the question with a single word.", Answer: strings.TrimSpace(answer), Category: r.text("type", "split")}
	if r.text("imgname") != "" {
		q.picture, err = r.image("png", "imgname")
	} else {
		q.picture, err = r.image("", "image")
	}
	return q, err
}

func or(text, other string) string {
	if text != "" {
		return text
	}
	return other
}
