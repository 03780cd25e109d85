package tools

// Limits end an episode; 0 is none. Published loops differ in what they count, so that the
// same number does not mean the same; the fields say which one counts so.
type Limits struct {
	// Tokens is of the whole sequence, with its prompt: the model's own stream (one place a
	// picture) and the trainer's (all of them) are both held to it. PromptRoom is what the prompt
	// counts for in the latter, where prompts are padded to one width (DeepEyes).
	Tokens     int `toml:"tokens"`
	PromptRoom int `toml:"prompt_room"`
	// Response is of what follows the prompt, in the trainer's stream (verl, Mini-o3). With
	// Margin, a call is not answered when fewer than that are left (Mini-o3: 2000).
	Response int `toml:"response"`
	Margin   int `toml:"margin"`

	Turns        int `toml:"turns"`        // answers of the model
	Observations int `toml:"observations"` // answers of the environment
	Pictures     int `toml:"pictures"`     // with the prompt's: no tool is called when there are so many
	Pixels       int `toml:"pixels"`       // of all pictures as shown

	// Known is the highest id that the model's stream takes; others are left out of it, and stay
	// in the trainer's (DeepEyes). 0: all are.
	Known int32 `toml:"-"`
	// ActFirst: the environment acts on a turn, and its reward counts, before limits are looked
	// at (DeepEyes). Else the other way round (verl).
	ActFirst bool `toml:"-"`
}

// full reports whether the streams have reached their limits, with so many tokens more.
func (l Limits) full(t *Transcript, engine, more, moreEngine int) bool {
	response := len(t.Tokens) - t.Prompt + more
	whole := max(t.Prompt, l.PromptRoom) + response
	return l.Tokens > 0 && (whole >= l.Tokens || engine+moreEngine >= l.Tokens) ||
		l.Response > 0 && response >= l.Response
}

// room is how long the trainer's stream may be at the end.
func (l Limits) room(t *Transcript) int {
	n := len(t.Tokens)
	if l.Response > 0 {
		n = min(n, t.Prompt+l.Response)
	}
	if l.Tokens > 0 {
		n = min(n, max(t.Prompt, t.Prompt+l.Tokens-max(t.Prompt, l.PromptRoom)))
	}
	return n
}

// ended is why an episode ends after a turn that asked for a tool; "" where it goes on.
func (l Limits) ended(t *Transcript, s *State) End {
	pixels := 0
	for _, p := range s.Album.Pictures {
		pixels += p.ShownWidth * p.ShownHeight
	}
	switch {
	case l.Turns > 0 && len(t.Turns) >= l.Turns:
		return Turns
	case l.Observations > 0 && t.Answers >= l.Observations:
		return Observations
	case l.Pictures > 0 && len(s.Album.Pictures) >= l.Pictures:
		return Pictures
	case l.Pixels > 0 && pixels >= l.Pixels:
		return Pixels
	case l.Margin > 0 && l.Response > 0 && len(t.Tokens)-t.Prompt >= l.Response-l.Margin:
		return Spent
	}
	return ""
}
