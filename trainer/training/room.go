package training

// room asks for the folder's room before anything is computed: for every checkpoint that will
// stand there, and the one that is written beside them.
func (t *Training) room() error {
	params, _, others := t.model.learning().State()
	numbers := 0
	for _, p := range params {
		numbers += p.Value.Len()
	}
	// Weights, two averages of their gradients, other weights, and the adapter once more for
	// others to read.
	one := int64(numbers)*4*int64(3+len(others)+1) + 1<<20
	all, err := t.folder.All()
	if err != nil {
		return err
	}
	return t.folder.Room(one * int64(max(1, t.Checkpoint.Keep+1-len(all))))
}
