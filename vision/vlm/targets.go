package vlm

// UsualTargets are the layers of the language model that an adapter is usually for, by the ends of their names.
func UsualTargets() []string {
	return []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}
}
