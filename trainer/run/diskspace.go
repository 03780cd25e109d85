package run

// checkDisk asks for the folder's room before anything is computed: for every checkpoint that will
// stand there, and the one that is written beside them.
func (t *training) checkDisk() error {
	all, err := t.files.folder.All()
	if err != nil {
		return err
	}
	one := t.model.Bytes() + 1<<20
	return t.files.folder.Room(one * int64(max(1, t.Checkpoint.Keep+1-len(all))))
}
