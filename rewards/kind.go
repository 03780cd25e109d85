package rewards

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// A Kind is a reward that [[reward]] may name. Its value is in the file of its formula. Files, lists, checks, plans and
// package judges read this value. Package kinds lists all of them.
type Kind struct {
	Name  string
	Card  string   // a sentence or two: its meaning and its origin
	Paper string   // whose it is
	Cases []string // recorded operations of published code that hold it
	Parts []string // numbers that it measures beside its value

	Published *Published // its weights on the hub; nil: none are named here

	Judges Subjects
	Traits Traits
	Toy    string // the stand-in for tests that it is without a path; "": it has none
	Remedy string // the key to write in place of the stand-in

	// The option structs that it reads, embedded in one struct; nil: none. Own fills it from a file's table, and the
	// functions below take it, by way of With, Checks and Opens.
	Options any

	Check    func(options any, report Report) // of its own keys; nil: every value is good
	CheckRun func(options any, run Run)       // of keys that a run needs, and a reward alone does not; nil: none
	Subject  func(options any) Subjects       // of a reward as it is written; nil: Judges
	Bounds   func(options any) *Bounds        // of its score; nil: not known
	Program  func(options any) string         // that it starts here, "" for none; nil: none
	Package  string                           // Debian's, that has the program; "": none
	Absent   string                           // the sentence of a plan where that is not installed; "": that it is needed
	Needs    func(options any) Need           // of a prompt; nil: it takes any
	Takes    func(options any) int64          // bytes of a call beside the numbers of path, 0 where it cannot be opened; nil: not counted
	Open     func(options any, b Bench) (Opened, error)
}

// Subjects are the samples that a reward judges.
type Subjects uint

// The subjects.
const (
	Pictures Subjects = 1 << iota
	Clips
	Replies // of a language model

	Everything = Pictures | Clips | Replies
)

// Names are "pictures", "clips" and "replies". A judge of pictures judges a clip by its frames.
func (s Subjects) Names() (names []string) {
	if s&Pictures != 0 {
		names = append(names, "pictures")
	}
	if s&(Clips|Pictures) != 0 {
		names = append(names, "clips")
	}
	if s&Replies != 0 {
		names = append(names, "replies")
	}
	return names
}

// Traits are properties of a reward.
type Traits uint

// The traits.
const (
	Scenes   Traits = 1 << iota // without a url, it knows the program's own scenes alone
	Edits                       // of those scenes, it judges edits, of half the side and more (SceneEdit)
	Weights                     // it is a network, whose folder path names
	Slopes                      // it says how pixels change it
	Prompted                    // it reads a prompt as a description, so that it takes control words
	Averages                    // it is the mean over a clip's frames by itself
	Outside                     // a server or a program computes it
	Flows                       // it reads a clip's optical flow
	Rule                        // a rule about replies: a prompt is tried with any reply
)

// Is reports whether the kind has all of some traits.
func (k Kind) Is(t Traits) bool { return k.Traits&t == t }

// Report takes the mistake of a key, and its remedy.
type Report = func(key, problem, hint string)

// A Run is the experiment that a reward is a part of.
type Run struct {
	Makes  []string // names of Subjects
	Report Report
}

// Bounds are the least and the most that a score can be.
type Bounds struct{ Low, High float64 }

// Unit are the bounds 0 and 1.
func Unit(any) *Bounds { return &Bounds{0, 1} }

// A Prompt is a line of a list, as a reward needs it.
type Prompt struct {
	Text    string
	Meta    Meta
	Sources int // pictures that its samples are made of
}

// A Need is the error of a prompt whose samples the reward could not judge, whatever they are.
type Need = func(p Prompt) error

// A Bench is the environment of rewards: device, cache, batch and calls.
type Bench struct {
	Device func() (*features.Device, error) // asked for by rewards with networks alone
	Cache  *call.Cache                      // of answers from outside; nil remembers nothing
	Batch  int                              // items in a request to a server or a program
	Policy call.Policy                      // of calls to servers and programs
}

// An Opened reward can be asked, and is closed when it no longer will be.
type Opened struct {
	Judge  Judge
	Close  func() error                    // nil: nothing is to be closed
	Starts func(ctx context.Context) error // error of a program that cannot start; nil: no program
}

// atOnce is how many samples a reward without a network judges beside each other.
const atOnce = 4

// One is a reward that holds nothing which must be closed.
func One(r Reward) Opened { return Opened{Judge: Each(r, atOnce)} }

// Plain opens a reward without options.
func Plain(r Reward) func(any, Bench) (Opened, error) {
	return func(any, Bench) (Opened, error) { return One(r), nil }
}

// Always are needs of a prompt that no option changes.
func Always(need Need) func(any) Need { return func(any) Need { return need } }

// With makes a function of a kind's options one of any options.
func With[O, R any](f func(options O) R) func(any) R {
	return func(options any) R { return f(options.(O)) }
}

// Checks is With of Kind.Check and Kind.CheckRun.
func Checks[O, R any](f func(options O, to R)) func(any, R) {
	return func(options any, to R) { f(options.(O), to) }
}

// Opens is With of Kind.Open.
func Opens[O any](f func(options O, b Bench) (Opened, error)) func(any, Bench) (Opened, error) {
	return func(options any, b Bench) (Opened, error) { return f(options.(O), b) }
}

// Runs is the program that the reward starts here, "" for none.
func (k Kind) Runs(options any) string {
	if k.Program == nil {
		return ""
	}
	return k.Program(options)
}

// Own are the kind's options as a struct has them that embeds all option structs, such as a file's [[reward]].
func (k Kind) Own(table any) any {
	if k.Options == nil {
		return nil
	}
	own := reflect.New(reflect.TypeOf(k.Options)).Elem()
	take(own, reflect.Indirect(reflect.ValueOf(table)))
	return own.Interface()
}

// take sets a struct, or the structs that it embeds, to those of their type in a table.
func take(own, table reflect.Value) {
	if v, ok := embedded(table, own.Type()); ok {
		own.Set(v)
		return
	}
	for i := range own.NumField() {
		if !own.Type().Field(i).Anonymous {
			panic(fmt.Sprintf("rewards: %s is in no option struct that %s embeds", own.Type().Field(i).Name, table.Type()))
		}
		take(own.Field(i), table)
	}
}

// embedded is the struct of a type that another is, or embeds.
func embedded(in reflect.Value, t reflect.Type) (reflect.Value, bool) {
	if in.Type() == t {
		return in, true
	}
	for i := range in.NumField() {
		if f := in.Type().Field(i); f.Anonymous && f.Type.Kind() == reflect.Struct {
			if v, ok := embedded(in.Field(i), t); ok {
				return v, true
			}
		}
	}
	return reflect.Value{}, false
}

// Option structs of several rewards.

// PathKey is the folder of a network, or a program.
type PathKey struct {
	Path string `toml:"path" doc:"folder of the weights, or program"`
}

// Folder is the folder of a reward's weights, which is there; "" where none is named.
func (k PathKey) Folder() (string, error) {
	dir, err := assets.Resolve(k.Path)
	if err != nil || k.Path == "" { // its reward refuses this
		return "", err
	}
	if at, err := os.Stat(dir); err != nil {
		return "", NoFolder(k)
	} else if !at.IsDir() {
		return "", fmt.Errorf("%s is a file\nhint: name the folder that it lies in", k.Path)
	}
	return dir, nil
}

// NetworkKeys are of rewards that compute a network here.
type NetworkKeys struct {
	PathKey
	Precision string `toml:"precision" enum:",f32,bf16" doc:"of the network's weights and activations; empty: f32. bf16 takes half the memory and the tensor cores of a GPU"`
}

// Place is the folder of the network, which is there, and the device that computes it; none where no folder is named.
func (k NetworkKeys) Place(b Bench) (dir string, d *features.Device, err error) {
	if dir, err = k.Folder(); err != nil || dir == "" {
		return "", nil, err
	}
	if d, err = b.Device(); err == nil && k.Precision == "bf16" {
		d = d.With(features.BF16)
	}
	return dir, d, err
}

// ServerKeys are a server's.
type ServerKeys struct {
	URL    string `toml:"url" doc:"of an http reward, of a judge behind an OpenAI-compatible server, or of a detector"`
	KeyEnv string `toml:"key_env" doc:"name of the environment variable that holds the key"`
}

// ErrNoKey is of a variable of the environment that holds nothing.
var ErrNoKey = errors.New("there is no key")

// Secret is the key that the variable holds.
func (k ServerKeys) Secret() (string, error) {
	if k.KeyEnv == "" {
		return "", nil
	}
	key := os.Getenv(k.KeyEnv)
	if key == "" {
		return "", fmt.Errorf("%w: the environment variable %s, which key_env names, is empty", ErrNoKey, k.KeyEnv)
	}
	return key, nil
}

// AtOnceKey is of servers and programs.
type AtOnceKey struct {
	AtOnce int `toml:"at_once" range:"[0,1024]" doc:"calls under way at once, and of exec programs that run; 0: 8 calls of a server, 1 program. No bit depends on it"`
}
