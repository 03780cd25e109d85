package single

// Joined is how a tensor of the file is made of a part's: the inverse of Open.
type Joined struct {
	From         string
	Rows         [2]int
	Swap, Turned bool
}

// Joins are a part's tensors, in the file.
func (f *File) Joins(part string) map[string]Joined {
	all := map[string]Joined{}
	for name, p := range f.parts[part] {
		if p.eyes == 0 {
			all[name] = Joined{p.from, p.rows, p.swap, p.turned}
		}
	}
	return all
}
