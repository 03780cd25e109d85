package tools

import "fmt"

// A Kind says what was wrong with a call.
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

// A Refusal is the answer to a call that is not done. Message is what the model is told;
// Raised is the exception by which the published code says the same, since some protocols'
// answers depend on it.
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
