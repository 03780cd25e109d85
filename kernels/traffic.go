package kernels

// Traffic is what a backend asked of a device: kernels started, times the program waited for it, and
// copies between the two memories. Times depend on the machine; these do not.
type Traffic struct {
	Launches      int   `json:"launches"`
	Waits         int   `json:"waits"`
	Uploads       int   `json:"uploads"`
	Downloads     int   `json:"downloads"`
	UploadBytes   int64 `json:"upload_bytes"`
	DownloadBytes int64 `json:"download_bytes"`
}

// Since is what was asked after an earlier reading.
func (t Traffic) Since(before Traffic) Traffic {
	return Traffic{t.Launches - before.Launches, t.Waits - before.Waits, t.Uploads - before.Uploads, t.Downloads - before.Downloads,
		t.UploadBytes - before.UploadBytes, t.DownloadBytes - before.DownloadBytes}
}
