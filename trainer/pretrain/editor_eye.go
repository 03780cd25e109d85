package pretrain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
)

// borrow copies the autoencoder of another folder.
func (r *editorRun) borrow() error {
	from, err := assets.Resolve(r.Eye)
	if err != nil {
		return fmt.Errorf("autoencoder: %w", err)
	}
	c, err := vae.ReadConfig(filepath.Join(from, "vae"))
	if err != nil {
		return fmt.Errorf("autoencoder: %w", err)
	}
	if levels := len(r.Editor.VAE.Channels); c.Latent != r.Editor.VAE.Latent || len(c.Channels) != levels {
		return fmt.Errorf("the autoencoder of %s has %d latents and %d levels, where vae.latent and vae.channels say %d and %d", r.Eye, c.Latent, len(c.Channels), r.Editor.VAE.Latent, levels)
	}
	to := filepath.Join(r.dir, "vae")
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(from, "vae")))); err != nil {
		return fmt.Errorf("copying the autoencoder of %s: %w", r.Eye, err)
	}
	return nil
}
