package tools

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
)

// A Call is a tool asked for.
type Call struct {
	Name    string
	Args    any      // as pytext.OrderedJSON reads it
	Refused *Refusal // the call cannot be read at all
}

// A Reading is the calls or the answer of a text.
type Reading struct {
	Answer   string   // the content of the answer's tags
	Answered bool     // the answer ends the episode; calls beside it are not made
	Calls    []Call   // those that are made, in order
	Refused  *Refusal // neither an answer nor a call, which this protocol does not let pass
	Rest     string   // the text without its calls, where the protocol says so
}

// A Plan is the result of a call.
type Plan struct {
	Ops   []Op            // new pictures, in order
	Ready []*vision.Image // new pictures that a program drew
	Text  string          // the text about them

	Figures int // how many pictures a program says there are by now; 0: it does not say
}

// A State is an episode as tools see it.
type State struct {
	Album   *Album
	Turn    int         // answers before this one
	Program Interpreter // runs code; nil where none was configured
	Reader  Reader      // reads text in pictures; nil without one
	Outside Answerer    // tools of other programs; nil without any
	Figures int         // PyVision's count of pictures, its own included
	Special []string    // the vocabulary's special tokens: no text that goes back may hold one
	Most    int         // pictures that the album may come to hold; 0: no limit
}

// A Result is a call with its result.
type Result struct {
	Call
	Plan
	Refusal *Refusal
	Reward  float64
}

// A Protocol is how one system writes calls, refuses them and answers.
type Protocol struct {
	Name   string
	Card   string   // its description, in a sentence
	Source string   // repository, commit and file of its instructions; "": they are written from its tools
	Limits Limits   // that it was trained with
	Cases  []string // recorded operations of published code that hold it
	// Code: a tool runs code that the model writes. Outside are the outside tools that the code calls.
	Code    bool
	Outside []string
	// In is the protocol for boxes in a frame that is chosen; nil: they have a frame of their own. Open: tools outside
	// may be added to its own.
	In   func(Frame) *Protocol
	Open bool

	Read func(text string) Reading
	// Tools are the ones that may be called. An unknown name is answered by Unknown; nil: in this package's words.
	Tools   []Tool
	Unknown func(name string) *Refusal
	// Together: a call that is refused refuses the whole turn, and ends the planning of it.
	Together bool
	// Strict: a turn that is refused ends the episode, and nobody reads why.
	Strict bool
	// Observation is the model's input after a turn; Pad is how it writes the place of a picture.
	Observation func(s *State, r *Reply) string
	Pad         string
	// Worth is the reward or the cost of a call by itself.
	Worth func(r Result) float64
}

// Protocols are all, by the names that an experiment's file uses, with their published settings. Each call makes new
// ones.
func Protocols() []*Protocol {
	return []*Protocol{
		Darkroom(), DeepEyes(), DeepEyesV2(), DeepEyesV5(), MiniO3(true), PixelReasoner(nil), PyVision(0.1), Verl(1), VRAG(false),
	}
}

// Named is the protocol of a name.
func Named(name string) (*Protocol, error) {
	var names []string
	for _, p := range Protocols() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("there is no protocol %q; there are %s", name, strings.Join(names, ", "))
}

// A Reply is the result of a turn.
type Reply struct {
	End      End      // "" while the episode goes on
	Answer   string   // with End == Answered
	Results  []Result // the calls that were made, refused ones included
	Refusal  *Refusal // the turn is refused
	Text     string   // the model's next input, with the protocol's own place-holders
	Pictures int      // new ones, that many place-holders
	Reward   float64

	Defused int // special tokens that a model or a program wrote, and that were made plain text

	pad   string
	taken bool
}

// VisionPad is the place of a picture in Qwen's templates.
const VisionPad = "<|vision_start|><|image_pad|><|vision_end|>"

// Step is the one mechanism: read, plan, answer. It changes nothing of the album.
func (p *Protocol) Step(s *State, text string) *Reply {
	r := p.Read(text)
	reply := &Reply{pad: p.Pad, Refusal: r.Refused}
	switch {
	case r.Answered:
		reply.End, reply.Answer = Answered, r.Answer
		return reply
	case r.Refused == nil && len(r.Calls) == 0:
		reply.End = NoCall
		return reply
	}
	made := 0
	for _, call := range r.Calls {
		result := p.plan(s, call)
		result.limit(s, made)
		made += len(result.Ops) + len(result.Ready)
		reply.Defused += result.defuse(s.Special, p.Pad)
		if p.Worth != nil {
			result.Reward = p.Worth(result)
		}
		reply.Reward += result.Reward
		reply.Results = append(reply.Results, result)
		if result.Refusal != nil && p.Together {
			reply.Refusal = result.Refusal
			break
		}
	}
	if reply.Refusal == nil {
		for _, result := range reply.Results {
			reply.Pictures += len(result.Ops) + len(result.Ready)
		}
	}
	if p.Strict && reply.Refusal != nil {
		reply.End = Refused
		return reply
	}
	reply.Text = p.Observation(s, reply)
	return reply
}

func (p *Protocol) plan(s *State, call Call) Result {
	result := Result{Call: call, Refusal: call.Refused}
	if result.Refusal != nil {
		return result
	}
	tool, ok := p.tool(call.Name)
	if !ok {
		result.Refusal = p.unknown(call.Name)
		return result
	}
	plan, err := tool.Plan(s, call.Args)
	if result.Plan = plan; err != nil {
		result.Refusal = asRefusal(err)
		result.Plan.Ready = nil
	}
	return result
}

func (p *Protocol) tool(name string) (Tool, bool) {
	for _, t := range p.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

func (p *Protocol) unknown(name string) *Refusal {
	if p.Unknown != nil {
		return p.Unknown(name)
	}
	var names []string
	for _, t := range p.Tools {
		names = append(names, t.Name)
	}
	return refuse(UnknownTool, "KeyError", "there is no tool %q; there are %s", name, strings.Join(names, ", "))
}

// Observation is Text with each picture's place written as Qwen's templates do.
func (r *Reply) Observation() string {
	if r.pad == "" || r.pad == VisionPad {
		return r.Text
	}
	return strings.ReplaceAll(r.Text, r.pad, VisionPad)
}

// Sound reports whether the observation has one place for each new picture, and none for a clip. Step defuses the
// model's text, so this fails only for a protocol whose own words are wrong: such an observation must not be used.
func (r *Reply) Sound() bool {
	text := r.Observation()
	return strings.Count(text, "<|image_pad|>") == r.Pictures && !strings.Contains(text, "<|video_pad|>")
}

// Make carries out the plan and adds the new pictures to the album; how many there were. A refused turn makes none. A
// failed operation is an error, and the album is as before.
func (r *Reply) Make(a *Album) (int, error) {
	if r.Refusal != nil || r.taken {
		return 0, nil
	}
	before := len(a.Pictures)
	for _, result := range r.Results {
		if err := result.make(a); err != nil {
			a.Pictures = a.Pictures[:before]
			return 0, err
		}
	}
	r.taken = true
	return len(a.Pictures) - before, nil
}

func (r Result) make(a *Album) error {
	if r.Refusal != nil {
		return nil
	}
	for _, op := range r.Ops {
		m, err := op.Make(a)
		if err != nil {
			return err
		}
		if err := a.made(m, op); err != nil {
			return err
		}
	}
	for _, m := range r.Ready {
		if err := a.made(m, Op{Kind: "program"}); err != nil {
			return err
		}
	}
	return nil
}

// A Kind is the kind of a call's mistake.
type Kind string

const (
	BadSyntax   Kind = "json"         // the call is not written as it must be
	MissingKey  Kind = "missing_key"  // an argument is not there
	WrongType   Kind = "wrong_type"   // an argument is of another kind
	BoxArity    Kind = "box_arity"    // a box does not have four numbers
	InvalidBox  Kind = "invalid_box"  // a box is empty, too thin, too small
	UnknownTool Kind = "unknown_tool" // no tool has this name
	NoPicture   Kind = "no_picture"   // no picture has this number
	BadValue    Kind = "bad_value"    // an argument's value makes no sense
	Failed      Kind = "failed"       // the call was right, and could not be done
)

// A Refusal is the answer to a call that is not done. The model reads Message; Raised is the exception by which the
// published code says the same, since some protocols' answers depend on it.
type Refusal struct {
	Kind    Kind
	Key     string // which key is missing
	Message string
	Raised  string
}

func (r *Refusal) Error() string { return r.Message }

func refuse(kind Kind, raised, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Raised: raised, Message: fmt.Sprintf(format, args...)}
}

// asRefusal is an error as a refusal.
func asRefusal(err error) *Refusal {
	if err == nil {
		return nil
	}
	if r, ok := err.(*Refusal); ok {
		return r
	}
	return &Refusal{Kind: Failed, Raised: "Exception", Message: err.Error()}
}
