package judges

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/video/flow"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Rewards by their names.

// A Bench is what rewards may need.
type Bench struct {
	Device func() (*features.Device, error) // asked for by rewards with networks alone
	Cache  *call.Cache                      // of answers from outside; nil remembers nothing
	Batch  int                              // items in a request to a server or a program
}

// An Opened reward can be asked, and is closed when it no longer will be.
type Opened struct {
	Outside bool // it waits for a server or a program, and computes nothing on the device
	Network bool // it computes on the device, and nothing else, so that its scores follow from what it judges
	judge   rewards.Judge
	close   func() error
}

// Judge asks about the samples of a prompt.
func (o Opened) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return o.judge.Judge(ctx, items)
}

// Gradient is the reward as one that says how pixels change it, and a sign: against, it is the
// opposite, which of a relative reward has the control words swapped (SRPO).
func (o Opened) Gradient(against bool) (d rewards.Sloped, sign float64, ok bool) {
	judge := o.judge
	if t, elsewhere := judge.(through); elsewhere {
		judge = t.own
	}
	relative, words := judge.(rewards.Relative)
	switch d, ok = judge.(rewards.Sloped); {
	case against && words:
		return relative.Swapped(), 1, ok
	case against:
		return d, -1, ok
	}
	return d, 1, ok
}

// Close ends what the reward runs on.
func (o Opened) Close() error {
	if o.close == nil {
		return nil
	}
	return o.close()
}

// atOnce is how many samples a reward without a network judges beside each other.
const atOnce = 4

// Open makes the reward that a file asks for.
func Open(r experiment.Reward, b Bench) (Opened, error) {
	open, ok := openers[r.Name]
	if !ok {
		return Opened{}, fmt.Errorf("reward %q cannot be opened in this version", r.Name)
	}
	computes := false
	if device := b.Device; device != nil {
		b.Device = func() (*features.Device, error) {
			computes = true
			return device()
		}
	}
	o, err := open(r, b)
	if err != nil {
		return Opened{}, fmt.Errorf("reward %s: %w", r.Called(), err)
	}
	o.Outside, o.Network = r.Outside(), computes && r.URL == ""
	if r.Framed() {
		rule, err := rewards.ParseFrames(r.Frames)
		if err != nil {
			return Opened{}, errors.Join(fmt.Errorf("reward %s: %w", r.Called(), err), o.Close())
		}
		rule.Every = r.Every
		o.judge = rewards.Framed{Of: o.judge, FrameRule: rule}
	}
	if r.Relative != nil {
		relative := *r.Relative
		relative.Of = o.judge
		o.judge = relative
	}
	return o, nil
}

// openers make each reward; those of Rewards that are not here are not built in yet.
var openers = map[string]func(r experiment.Reward, b Bench) (Opened, error){
	"layout":      openLayout,
	"geneval":     openGenEval,
	"scene":       single(rewards.SceneTask{}),
	"background":  single(rewards.SceneGround{}),
	"shade":       single(rewards.SceneShade{}),
	"ocr":         openOCR,
	"jpeg":        openJPEG,
	"edit":        single(rewards.SceneEdit{}),
	"edit_done":   single(rewards.SceneEdit{Of: rewards.OfDone}),
	"edit_kept":   single(rewards.SceneEdit{Of: rewards.OfKept}),
	"preserve":    openPreserve,
	"likeness":    network,
	"direction":   network,
	"sharpness":   single(rewards.Sharpness{}),
	"motion":      movement("true"),
	"heading":     openHeading,
	"thing":       single(rewards.Thing{}),
	"hpsv3":       openHPSv3,
	"editreward":  openEditReward,
	"videoreward": openVideoReward,
	"magnitude":   movement("magnitude"),
	"dynamic":     movement("dynamic"),
	"flicker":     movement("flicker"),
	"smooth":      movement("smoothness"),
	"warp":        movement("warp"),
	"format":      openRule,
	"accuracy":    openRule,
	"tools":       openTools,
	"look":        single(answers.DefaultLook()),
	"tool-bonus":  single(answers.ToolBonus(answers.Rule(answers.Default).Reward())),
	"calls":       single(answers.CallCount()),
	"environment": single(answers.Environment()),
	"repetition":  openRepetition,
	"language":    single(answers.Language{}),
	"length":      openLength,
	"mini_o3":     openMiniO3,
	"aesthetic":   network,
	"clip":        network,
	"dino":        network,
	"backdrop":    network,
	"hpsv2":       network,
	"pickscore":   network,
	"imagereward": network,
	"exec":        openExec,
	"http":        openHTTP,
	"judge":       openJudge,
}

func single(r rewards.Reward) func(experiment.Reward, Bench) (Opened, error) {
	return func(experiment.Reward, Bench) (Opened, error) { return Opened{judge: rewards.Each(r, atOnce)}, nil }
}

// openOCR reads drawn words itself, or by the program that path names: Tesseract.
func openOCR(r experiment.Reward, _ Bench) (Opened, error) {
	set := experiment.Filled(r.OCR)
	o := rewards.OCR{Reader: rewards.SceneReader{}, OCRRule: set.OCRRule}
	if r.Path != "" {
		t := rewards.Tesseract{Program: r.Path, Language: set.Language, Layout: set.Page, Timeout: policy(r).Timeout}
		if _, err := t.Version(context.Background()); err != nil {
			return Opened{}, err
		}
		o.Reader = t
	}
	return Opened{judge: rewards.Each(o, atOnce)}, nil
}

func openJPEG(r experiment.Reward, _ Bench) (Opened, error) {
	return Opened{judge: rewards.Each(rewards.JPEG{Factor: experiment.Filled(r.JPEG).Factor()}, atOnce)}, nil
}

// openPreserve compares a sample with what it was made of.
func openPreserve(r experiment.Reward, _ Bench) (Opened, error) {
	return Opened{judge: rewards.Each(rewards.Preserve{PreserveOptions: experiment.Filled(r.Preserve)}, atOnce)}, nil
}

// movement is one of the measures of how a clip moves.
func movement(measure string) func(experiment.Reward, Bench) (Opened, error) {
	return func(r experiment.Reward, _ Bench) (Opened, error) {
		set := experiment.Filled(r.Motion)
		if err := flowing(set.Method); err != nil {
			return Opened{}, err
		}
		m := rewards.Motion{MotionRule: rewards.MotionRule{Measure: measure, Method: set.Method, PerSecond: set.PerSecond}}
		return Opened{judge: rewards.Each(m, atOnce)}, nil
	}
}

// flowing refuses a flow that this program was built without.
func flowing(method string) error {
	if method == "opencv" && !flow.HasOpenCV {
		return flow.ErrNoOpenCV
	}
	return nil
}

// openHeading asks the steady flow, and looks at all frames, where the file says nothing.
func openHeading(r experiment.Reward, _ Bench) (Opened, error) {
	h := rewards.Heading{}
	if r.Motion != nil {
		if err := flowing(r.Motion.Method); err != nil {
			return Opened{}, err
		}
		h.PerSecond = r.Motion.PerSecond
		h.Flow = rewards.FlowNamed(r.Motion.Method)
	}
	return Opened{judge: rewards.Each(h, atOnce)}, nil
}

// network opens the folder of a reward that a network computes; networks.go says how.
func network(r experiment.Reward, b Bench) (Opened, error) {
	n := Network{Reward: r.Name, Path: r.Path, Scaling: r.Scaling, Of: experiment.Filled(r.Likeness).Of}
	if n.Path == "" && (n.Reward == "clip" || n.Reward == "aesthetic") {
		n.Path = embedded
	}
	var err error
	if n.Path, err = folder(n.Path); err != nil {
		return Opened{}, err
	}
	if err := n.check(); err != nil {
		return Opened{}, err
	}
	d, err := b.Device()
	if err != nil {
		return Opened{}, err
	}
	judge, done, err := n.Open(d)
	if err != nil {
		return Opened{}, err
	}
	return Opened{judge: judge, close: func() error { done(); return nil }}, nil
}

// folder is the folder of a reward's weights, which is there.
func folder(path string) (string, error) {
	dir, err := assets.Resolve(path)
	if err != nil || path == "" { // which is told of by its reward
		return "", err
	}
	if at, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("%s: no such folder\nhint: darkroom pull brings a hub's folder", path)
	} else if !at.IsDir() {
		return "", fmt.Errorf("%s is a file\nhint: name the folder that it lies in", path)
	}
	return dir, nil
}

// policy is how often and how long what is outside is asked.
func policy(r experiment.Reward) call.Policy {
	return call.Policy{Timeout: time.Duration(r.Timeout * float64(time.Second)), Tries: r.Tries, AtOnce: r.Calls()}
}

// ErrNoKey is of a variable of the environment that holds nothing.
var ErrNoKey = errors.New("there is no key")

// secret is the key that the reward's variable holds.
func secret(r experiment.Reward) (string, error) {
	if r.KeyEnv == "" {
		return "", nil
	}
	key := os.Getenv(r.KeyEnv)
	if key == "" {
		return "", fmt.Errorf("%w: the environment variable %s, which key_env names, is empty", ErrNoKey, r.KeyEnv)
	}
	return key, nil
}

func openHTTP(r experiment.Reward, b Bench) (Opened, error) {
	key, err := secret(r)
	if err != nil {
		return Opened{}, err
	}
	if r.URL == "" {
		return Opened{}, fmt.Errorf("url is missing: where the server answers")
	}
	return Opened{judge: rewards.HTTP(r.URL, key, b.Batch, policy(r), b.Cache)}, nil
}

func openExec(r experiment.Reward, b Bench) (Opened, error) {
	argv, err := r.Argv()
	if err != nil {
		return Opened{}, fmt.Errorf("command: %w", err)
	}
	if len(argv) == 0 {
		return Opened{}, fmt.Errorf("command or path is missing: the program to run")
	}
	e, err := rewards.NewExec(argv, b.Batch, policy(r), b.Cache)
	if err == nil {
		err = e.Pass(r.Env...)
	}
	if err != nil {
		return Opened{}, err
	}
	var c io.Closer = e
	return Opened{judge: e, close: c.Close}, nil
}
