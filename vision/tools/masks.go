package tools

// Masks over token ids that were not sampled here: transcripts of others, for supervised
// training. A transcript of our own knows what it sampled.

// AssistantMask marks, from each start of a turn that the role follows, up to and with the next
// end of a turn; the header is marked, too. A turn that does not end is not marked
// (Pixel-Reasoner's create_assistant_response_mask; vlm.assistant_mask).
func AssistantMask(ids []int32, start, end, role int32) []bool {
	ends := make([]int, len(ids)) // the next end from here on, -1 where there is none
	for i, next := len(ids)-1, -1; i >= 0; i-- {
		if ids[i] == end {
			next = i
		}
		ends[i] = next
	}
	mask, until := make([]bool, len(ids)), -1
	for i := range ids {
		if ids[i] == start && i+1 < len(ids) && ids[i+1] == role {
			until = max(until, ends[i])
		}
		mask[i] = i <= until
	}
	return mask
}

// LastEndMask marks all but padding up to and with the last end; everything but padding where
// there is no end (Pixel-Reasoner's create_action_mask_up_to_last_eos; vlm.last_eos_mask).
func LastEndMask(ids []int32, end, pad int32) []bool {
	stop := len(ids)
	for i, id := range ids {
		if id == end {
			stop = i + 1
		}
	}
	mask := make([]bool, len(ids))
	for i := range stop {
		mask[i] = ids[i] != pad
	}
	return mask
}
