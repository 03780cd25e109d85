package kinds

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/judge"
	"github.com/darkroom-rl/darkroom/rewards/neural"
)

// table has every option struct, as a file's [[reward]] has.
type table struct {
	rewards.NetworkKeys
	rewards.CommandKey
	rewards.ServerKeys
	rewards.EnvKey
	rewards.AtOnceKey
	neural.ScalingKey
	Options
}

// wanting are the parts that a kind lacks.
func wanting(k rewards.Kind) (lacks []string) {
	for what, there := range map[string]bool{"a name": k.Name != "", "a card that is a sentence": strings.HasSuffix(k.Card, "."), "a paper": k.Paper != "",
		"what it judges": k.Judges != 0, "how it is opened": k.Open != nil, "what to write for the real one": (k.Toy == "") == (k.Remedy == ""),
		"its prompts' needs by one way": !k.Is(rewards.Rule) || k.Needs == nil} {
		if !there {
			lacks = append(lacks, what)
		}
	}
	slices.Sort(lacks)
	return lacks
}

// TestKinds: every reward is whole, and has a name of its own; one that lacks something is found.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range All() {
		if lacks := wanting(k); len(lacks) > 0 {
			t.Errorf("%s lacks %v", k.Name, lacks)
		}
		if seen[k.Name] {
			t.Errorf("%s is there twice", k.Name)
		}
		seen[k.Name] = true
		if found, ok := Named(k.Name); !ok || found.Card != k.Card {
			t.Errorf("%s is not found", k.Name)
		}
	}
	if lacks := wanting(rewards.Kind{Name: "made-up", Card: "no sentence", Judges: rewards.Pictures}); len(lacks) != 3 {
		t.Errorf("a kind that is not whole lacks %v", lacks)
	}
	if _, ok := Named("telepathy"); ok {
		t.Error("a reward that there is not")
	}
}

// TestFunctionsReadOptions: the functions of a kind take its own options, filled from a table.
func TestFunctionsReadOptions(t *testing.T) {
	t.Setenv("PATH", "")
	all := table{}
	all.Frames, all.Rule = "worst", "boxed"
	for _, k := range All() {
		own := k.Own(&all)
		if (own == nil) != (k.Options == nil) || own != nil && reflect.TypeOf(own) != reflect.TypeOf(k.Options) {
			t.Errorf("%s: %T for options of %T", k.Name, own, k.Options)
		}
		ignore := func(string, string, string) {}
		if k.Check != nil {
			k.Check(own, ignore)
		}
		if k.CheckRun != nil {
			k.CheckRun(own, rewards.Run{Report: ignore})
		}
		if k.Subject != nil && k.Subject(own)&^k.Judges != 0 {
			t.Errorf("%s judges more than it says", k.Name)
		}
		if k.Bounds != nil && k.Bounds(own).High <= k.Bounds(own).Low {
			t.Errorf("%s is between %v", k.Name, *k.Bounds(own))
		}
		if k.Needs != nil {
			k.Needs(own)
		}
		k.Runs(own)
	}
	k, _ := Named("jpeg")
	if own := reflect.ValueOf(k.Own(&all)); own.FieldByName("Frames").String() != "worst" {
		t.Errorf("of jpeg: %+v", own)
	}
}

// TestUnknownOptions: a kind whose options no table has is a mistake of its author.
func TestUnknownOptions(t *testing.T) {
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "is in no option struct") {
			t.Errorf("%q", said)
		}
	}()
	rewards.Kind{Options: struct{ Made int }{}}.Own(&table{})
}

// TestForms: every form of the judge is whole, and can be written.
func TestForms(t *testing.T) {
	var names []string
	for _, f := range judge.Forms() {
		names = append(names, f.Name)
		ways := 0
		for _, way := range []bool{f.Mark != nil, f.Pair != nil, f.New != nil} {
			if way {
				ways++
			}
		}
		if ways != 1 || !strings.HasSuffix(f.Card, ".") || f.Judges == 0 {
			t.Errorf("form %q has %d ways to ask, card %q", f.Name, ways, f.Card)
		}
	}
	for _, k := range config.Keys(&judge.Options{}) {
		if k.Path == "form" && !slices.Equal(slices.Sorted(slices.Values(k.Enum)), slices.Sorted(slices.Values(names))) {
			t.Errorf("a file may write %v, and there are %v", k.Enum, names)
		}
	}
}
