package experiment

import (
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
)

// Run is [run].
type Run struct {
	Name       string  `toml:"name,required" doc:"the run's folder, below runs/"`
	Seed       int     `toml:"seed" range:"[0,inf)" doc:"all that is random follows from it"`
	Iterations int     `toml:"iterations,required" range:"[1,1e9]" doc:"rolls and updates; of all stages together. --set run.iterations=5 cuts the last stages, or gives the last one more"`
	Device     string  `toml:"device" doc:"auto, cpu, or cuda:0; several train together: cuda:0,cuda:1"`
	Memory     string  `toml:"memory" doc:"what the run may take, rewards' networks apart, such as 16GiB: decides how many pictures go through the network at once and what backward computes again, and no bit; empty: what is free"`
	States     *string `toml:"states" enum:"device,ranks,host" doc:"where the fp32 values of trained parameters, the averages of their gradients and other sets of weights lie: device, all of them on each device; ranks, shared out among the devices of the run, each of which moves its own; or host, in the host's memory, where the CPU moves them. Devices keep what products read, of a whole network in 2 bytes a number. No bit depends on it, nor a checkpoint; unwritten: by run.memory or the unused memory"`
	Lag        int     `toml:"lag" range:"[0,64]" doc:"iteration i is rolled by the weights of iteration i - lag, always: workers (train --listen) roll ahead while the trainer trains, and objectives with a ratio correct for it. 0: by the current ones"`
	Shards     int     `toml:"shards" range:"[1,4096]" doc:"parts that a gradient is summed in, apart, before they are added in a binary tree: bits then depend on this number and on no number of devices, or of workers that compute gradients, up to as many. 1: one chain of sums on one device, and of several devices one part each"`
	Tokens     *int    `toml:"tokens" range:"[2,64]" of:"pictures" doc:"ranks that share the tokens of every picture or clip: attention is computed head by head, and ranks share the heads, so that there are at least as many. Samples have the bits of one device, and gradients those of this number of shares, on any number of devices up to as many; ranks on one device have a copy of the weights each. Unwritten: every device has whole samples"`
	RankLimit  float64 `toml:"rank_limit" range:"(0,1e6]" doc:"seconds that devices which train together wait for one that does not come, or that computes on while others are done (or 20 times as long as those took), until the run fails"`
}

// Model is [model].
type Model struct {
	Path       string   `toml:"path,required" doc:"a folder in the hub's layout, or embed:NAME; or one file, a .safetensors checkpoint of Stable Diffusion 1.5, SDXL, Stable Diffusion 3 or FLUX as its authors or ComfyUI have it"`
	Base       string   `toml:"base" of:"pictures" doc:"where path is one file: a folder of the same architecture, whose settings and tokenizers are read, and the weights that the file does not hold"`
	Precision  string   `toml:"precision" enum:"bf16,f32" doc:"of frozen weights and activations"`
	Home       *string  `toml:"home" enum:"device,host,ranks,disk" doc:"where frozen matrices lie while no product reads them: device, in its memory; host, in the host's, from which each pass copies them ahead (of a CPU: in its own); ranks, in the memory of all devices of the run, each of which holds a share; or disk, in their files, from which each pass reads them ahead. No bit depends on it; unwritten: device, host or disk, by run.memory or the unused memory"`
	Quantize   *string  `toml:"quantize" enum:"nf4,fp8,int8" doc:"what matrices of the denoiser, or of a model that speaks, are compressed to when they are loaded: nf4, bitsandbytes' 4 bits; fp8, a scale a matrix, or of 128 x 128 values; int8, bitsandbytes' 8 bits. They stay compressed in memory, and a run is that of the folder which 'darkroom quantize' writes; unwritten: as the folder has them"`
	Decoder    string   `toml:"decoder" enum:"auto,f32,bf16" of:"pictures" doc:"what the autoencoder computes in; auto: precision, and f32 where its folder says force_upcast, which diffusers heeds for fp16 alone; on a GPU fp32 does without tensor cores, and pictures take many times as long"`
	TextLength int      `toml:"text_length" range:"[-1,512]" of:"pictures" doc:"tokens that a T5 encoder reads; 0: what the folder says, or as upstream; -1: none, where there is no such encoder"`
	TextLayers []int    `toml:"text_layers" range:"[0,512]" of:"pictures" doc:"layers of FLUX.2's text encoder whose states are read, 0 for its embeddings; empty: 9, 18 and 27, as diffusers (text_encoder_out_layers)"`
	SourceArea int      `toml:"source_area" range:"[-1,16777216]" of:"pictures" doc:"pixels of the pictures that others are made of (image in prompts), whose proportions stay; 0: what the model was trained with; -1: as they are"`
	Train      []string `toml:"train,single" doc:"\"lora\", \"full\", or patterns of parameter names"`
	Blank      []string `toml:"blank,single" of:"tokens" doc:"patterns of parameter names that begin as random numbers, which follow from run.seed, and not as what the folder has: layers that are learned from nothing. They must be trained"`
	Template   string   `toml:"template" of:"tokens" doc:"the form of conversations, where the folder's own is missing or none of the published: qwen2_5_vl, qwen3_vl or another name that a mistake lists, or a file or a folder that has such a template; empty: the folder's own"`
	Experts    string   `toml:"experts" enum:"both,high,low" of:"pictures" doc:"of two networks that take turns (Wan 2.2's A14B), which are trained: both; high, transformer, which has the noisy steps; or low, transformer_2. Steps of one that is not trained are sampled, and the window leaves them out"`
	NewTokens  []string `toml:"new_tokens,single" of:"tokens" doc:"tokens whose rows in the embeddings, and in the head, begin as random numbers, which follow from run.seed: as of those that a vocabulary is given anew, such as the marks of tool calls. The rows must be trained"`
	Teacher    string   `toml:"teacher" doc:"who loss.kl.reference = \"teacher\" asks: an adapter of the model, or the folder of a model of its class, with the same text encoders; of an episode: with the same tokenizer and processor"`
	Adapter    string   `toml:"adapter" doc:"an adapter that training begins with: a folder of PEFT's, a file of diffusers', or a run; its rank and layers count, and not those of model.lora. What loss.kl calls base is the model without it"`
	LoRA       LoRA     `toml:"lora"`
}

// LoRA is the adapter that is trained.
type LoRA struct {
	Rank    int      `toml:"rank" range:"[1,4096]" doc:"inner dimension"`
	Alpha   float64  `toml:"alpha" range:"(0,inf)" doc:"the adapter is scaled by alpha/rank"`
	Targets []string `toml:"targets,single" doc:"names of the layers, or how they end"`
	Init    string   `toml:"init_lora_weights" enum:"default,gaussian" doc:"how the inner matrix begins, as in PEFT: uniform within 1/√inputs, or normal with deviation 1/rank"`
}

// The targets are flow_grpo's for SD3's own attention.
func defaultLoRA() LoRA {
	return LoRA{Rank: 32, Alpha: 64, Targets: []string{"attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"}, Init: "default"}
}

// Rollout is [rollout].
type Rollout struct {
	Prompts []string  `toml:"prompts,single,required" doc:"one list or several: a .txt, .jsonl, .csv or .parquet file, a folder of a hub's data set, or embed:NAME; FILE#COLUMN names the column of a table's prompts, FOLDER@SPLIT a data set's split"`
	Shares  []float64 `toml:"shares" range:"(0,inf)" doc:"how many prompts come of each list beside the others, a number a list; empty: every prompt comes as often as any other"`
	Offline bool      `toml:"offline" doc:"prompts name pictures that exist, which are learned from in place of samples: lines with a, b and better, or with image and score; a folder of pictures with captions; or embed:scene-pairs. group is how many pictures a prompt has"`
	loss.LessonOptions
	PromptsPerIteration int  `toml:"prompts_per_iteration" range:"[1,1e6]" doc:"groups of an iteration"`
	Group               int  `toml:"group" range:"[1,1e6]" doc:"samples of a prompt"`
	SharedNoise         bool `toml:"shared_noise" doc:"a group starts from one noise, so that steps before the window are shared"`

	TextNoise  *TextNoise          `toml:"text_noise" of:"pictures" doc:"noise in the texts of a roll, so that samples of a prompt differ; learned is the clean text (after CADS)"`
	Resample   *Resample           `toml:"resample" doc:"further prompts in place of groups that teach nothing (DAPO)"`
	More       *prompts.More       `toml:"more" doc:"further samples of prompts that mostly fail, in the same iteration (DARS)"`
	Curriculum *prompts.Curriculum `toml:"curriculum" doc:"prompts in proportion to how often they fail, or to how open their outcome is"`
	Ban        *prompts.Ban        `toml:"ban" doc:"prompts whose samples all do well are not rolled again (Edit-R1)"`
	Skip       *prompts.Skip       `toml:"skip" doc:"prompts that keep teaching nothing are left out before they are rolled (GRESO)"`
	Filter     *prompts.PassRates  `toml:"filter" doc:"prompts that the untrained model always or never solves are left out (Qwen3-VL)"`
	Buffer     *Buffer             `toml:"buffer" doc:"groups with signal are learned from again (Skywork R1V2)"`
}

// TextNoise is [rollout.text_noise]: noise in the states of texts, after CADS (Sadat et al., 2024), whose noise falls
// over a sample's steps. Here it is the same at all steps, and falls over training. An objective of noised finished
// samples compares no likelihoods of the roll, so that samples may come from other texts than the one that is learned.
type TextNoise struct {
	Strength float64 `toml:"strength" range:"(0,10]" doc:"its deviation at the start, beside the root mean square of the text's states"`
	Schedule string  `toml:"schedule" enum:"none,linear" doc:"linear: it falls to 0 over the stage's iterations"`
}

// SetDefaults is a table before its keys are read.
func (n *TextNoise) SetDefaults() { *n = TextNoise{Strength: 0.15, Schedule: "linear"} }

// At is the strength in an iteration of a stage, from 0.
func (n *TextNoise) At(iteration, of int) float64 {
	switch {
	case n == nil:
		return 0
	case n.Schedule == "none":
		return n.Strength
	}
	return n.Strength * float64(max(0, of-iteration)) / float64(of)
}

// Evaluate is [evaluate].
type Evaluate struct {
	Every   int    `toml:"every" range:"[0,inf)" doc:"iterations; 0: only before and after"`
	Prompts string `toml:"prompts" doc:"held out; empty: none"`
	Samples int    `toml:"samples" range:"[1,1e6]" doc:"of a prompt"`
	Seed    int    `toml:"seed" range:"[0,inf)" doc:"the same in every evaluation"`
	Width   int    `toml:"width" range:"[0,16384]" of:"pictures" doc:"pixels of a held-out picture, with height; 0: as [sampler] says"`
	Height  int    `toml:"height" range:"[0,16384]" of:"pictures" doc:"pixels of a held-out picture, with width"`
	Turns   int    `toml:"turns" range:"[0,1e4]" of:"tokens" doc:"answers of the model at most in a held-out episode; 0: as [episode] says. More than training has are how Mini-o3 is evaluated; episode.tokens and episode.pictures stay"`
	Frames  int    `toml:"frames" range:"[0,4096]" of:"pictures" doc:"of a held-out clip; 0: as [sampler] says"`
	Weights string `toml:"weights" enum:"current,ema" doc:"which are evaluated: those that are trained, or where optim.ema keeps one their moving average"`
	// Guided, where it is set, is shown beside: training gained more than guidance gives for nothing, or not.
	Guided float64 `toml:"guided" range:"[0,1000]" doc:"the start and the end are measured with this guidance too; 0: they are not"`
}

// Checkpoint is [checkpoint].
type Checkpoint struct {
	Every int `toml:"every" range:"[1,inf)" doc:"iterations"`
	Keep  int `toml:"keep" range:"[1,inf)" doc:"the last ones; older are deleted"`
}

// Episode is [episode]: turns of a vision-language model with tools.
type Episode struct {
	Protocol   string           `toml:"protocol" enum:"darkroom,deepeyes,deepeyes_v2,deepeyes_v5,mini_o3,pixel_reasoner,pyvision,verl,vrag" doc:"how calls and pictures are written; a prompt whose meta.protocol names another is asked by that one"`
	Frame      string           `toml:"frame" enum:"shown,full,unit,thousand" doc:"of darkroom: what a box counts: pixels as shown, at full size, shares or thousandths of the sides"`
	System     *string          `toml:"system" doc:"the system message; empty: the template's own; unwritten: the protocol's published instructions, which plan prints. Embedded models, and rows with a system message, get none"`
	Turns      int              `toml:"turns" range:"[1,1e4]" doc:"answers of the model"`
	TurnTokens int              `toml:"turn_tokens" range:"[1,1e6]" doc:"of one answer"`
	Tools      []string         `toml:"tools" doc:"what may be called, by its name or a part of it; empty: all that the protocol has"`
	Tokens     int              `toml:"tokens" range:"[1,1e7]" doc:"of an episode, prompt included"`
	Pictures   int              `toml:"pictures" range:"[1,1e4]" doc:"of an episode"`
	Parallel   int              `toml:"parallel" range:"[0,1024]" doc:"episodes under way at once, each with keys and values of its own; 0: 8, and 32 on a graphics card, and further ones while others wait for the code that they run (as many again) or for programs and servers (as many as have keys and values of about 256 MiB, at least as many again, 256 in all), unless run.memory bounds the run; no bit depends on it"`
	Sampling   sampling.Options `toml:"sampling" doc:"how tokens are drawn"`

	Overlong  *advantage.Overlong `toml:"overlong" doc:"a penalty for answers that come near a limit (DAPO)"`
	Truncated *float64            `toml:"truncated" doc:"what the reward of a truncated answer is multiplied by, or, below 0, becomes (ProRL)"`
	Noisy     *Noisy              `toml:"noisy" doc:"part of a group sees distorted pictures, and learns from the clean ones (NoisyRollout)"`
	Shuffled  *Shuffled           `toml:"shuffled" doc:"part of a group sees its clip with shuffled frames, and the others earn more where they do better (T-GRPO)"`
	Tree      *Stems              `toml:"tree" doc:"the episodes of a group grow on trees, and part where a turn ends (Tree-GRPO)"`
	Guided    *prompts.Guided     `toml:"guided" doc:"part of a group is given the beginning of the prompt's solution, as much as the scores ask for (G2RPO-A)"`
	Clips     *Clips              `toml:"clips" doc:"how clips that questions name (meta.clip) are read"`
	Exec      *program.Options    `toml:"exec" doc:"what runs the code that a model writes (pyvision, deepeyes_v2)"`
	Served    []Served            `toml:"tool" doc:"tools behind servers and programs, beside those of protocol darkroom, or in the place of one of the same name; search is what protocols vrag and deepeyes_v2 find pages with, and image_search what deepeyes_v2 asks about the prompt's picture"`
	Engine    *Engine             `toml:"engine" doc:"a server that draws the tokens of training's episodes: vLLM or SGLang; evaluations are drawn here, and what a run draws is no function of its seed then"`
	Silence   bool                `toml:"silence" doc:"answers that ran out of turns count in their group, and are not trained on (Mini-o3)"`
}

// SetDefaults is DeepEyes's.
func (e *Episode) SetDefaults() {
	*e = Episode{Protocol: "deepeyes", Frame: "shown", Turns: 6, TurnTokens: 2048, Tokens: 16384, Pictures: 8, Sampling: sampling.Default()}
}
