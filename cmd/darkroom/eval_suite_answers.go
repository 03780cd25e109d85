package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/data/suites"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// mostLost is the share of questions that may be lost, one in so many: of more a suite says nothing.
const mostLost = 10

// rollTwice asks those once more that a tool outside has lost, after all its tries.
func rollTwice(p *conversations.Policy, keys []trainer.Key) ([]trainer.Sample, error) {
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		return nil, err
	}
	for i, s := range samples {
		if conversations.EpisodeOf(s).Lost == nil {
			continue
		}
		again, err := p.Roll(trainer.Current, keys[i:i+1])
		if err != nil {
			return nil, err
		}
		samples[i] = again[0]
	}
	return samples, nil
}

// answers has the model answer a set's questions, some at a time. With an error come those that there are. A question
// that a tool outside loses is asked twice, and is not right.
func (o *suiteOptions) answers(cmd *cobra.Command, p *conversations.Policy, e *experiment.Episode, set *suites.Set) (all []suites.Answer, err error) {
	p.Ask = func(n int) (conversations.Question, error) {
		m, err := set.Questions[n].Picture()
		if err != nil {
			return conversations.Question{}, err
		}
		q := conversations.Asked(set.Questions[n].Prompt, m)
		return q.Told(e, o.path, p.Speaker.Template)
	}
	bar := newProgress(cmd.ErrOrStderr(), set.Name)
	defer bar.end()
	portion, lost := 4*p.AtOnce(), 0
	for from := 0; from < len(set.Questions); from += portion {
		var keys []trainer.Key
		for n := from; n < min(from+portion, len(set.Questions)); n++ {
			keys = append(keys, trainer.Key{Prompt: n})
		}
		p.Progress = func(done, _ int) { bar.set(from+done, len(set.Questions)) }
		samples, err := rollTwice(p, keys)
		if err != nil {
			return all, fmt.Errorf("%s: %w", set.Name, err)
		}
		for i, s := range samples {
			q, said := set.Questions[from+i], conversations.EpisodeOf(s)
			if said.Lost != nil {
				all = append(all, suites.Answer{ID: q.ID, Category: q.Category, Prompt: q.Prompt, Turns: said.Texts, End: string(said.End), Truth: q.Answer, Lost: said.Lost.Error()})
				if lost++; lost*mostLost > len(set.Questions) {
					return all, fmt.Errorf("%s: more than one question in %d is lost, such as %s: %w\nhint: see that the tool answers, and ask again: it keeps what it has answered", set.Name, mostLost, q.ID, said.Lost)
				}
				continue
			}
			a := suites.Answer{ID: q.ID, Category: q.Category, Prompt: q.Prompt, Turns: said.Texts, End: string(said.End), Truth: q.Answer}
			reply := said.Answer
			if reply == "" {
				reply = a.Said()
			}
			a.Right = set.Right(q, reply)
			all = append(all, a)
		}
	}
	return all, nil
}

// linesOf are answers, a line of JSON each.
func linesOf(answers []suites.Answer) (string, error) {
	var lines strings.Builder
	for _, a := range answers {
		line, err := json.Marshal(a)
		if err != nil {
			return "", err
		}
		lines.Write(append(line, '\n'))
	}
	return lines.String(), nil
}

// keepAnswers writes the answers of a suite that was not finished, and says where.
func keepAnswers(cmd *cobra.Command, dir, name string, answers []suites.Answer) error {
	if len(answers) == 0 {
		return nil
	}
	lines, err := linesOf(answers)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, name+".unfinished.jsonl")
	if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
		return fmt.Errorf("writing the answers so far: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s so far are in %s\n", plural(int64(len(answers)), "answer"), path)
	return nil
}

// write writes a result, what was said, and the card.
func write(dir string, r suites.Result, answers []suites.Answer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	lines, err := linesOf(answers)
	if err != nil {
		return err
	}
	for ending, content := range map[string]string{".json": string(text) + "\n", ".jsonl": lines, ".md": r.Card()} {
		if err := os.WriteFile(filepath.Join(dir, r.Suite+ending), []byte(content), 0o644); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return nil
}
